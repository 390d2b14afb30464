/** Makes the anchor of a heading like GitHub does, so that links work in the repository and on the site. */
export function makeSlug(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-');
}
