/** Paths of all icons, which replace an icon library. */
const paths: ReadonlyMap<string, string> = new Map([
  ['overview', 'M3 13h4V8H3zm6.5 0h4V3h-4zM16 13h1V6'],
  ['doctor', 'M10 2.5 16 5v4.5c0 4-2.8 6.7-6 8-3.2-1.3-6-4-6-8V5zm0 4.5v6M7 10h6'],
  ['incidents', 'M10 3 2.5 16.5h15zm0 5v4m0 2v.01'],
  ['jobs', 'M3 5h14M3 10h14M3 15h9'],
  ['runs', 'M5 4v5a3 3 0 0 0 3 3h7m0 0-3-3m3 3-3 3M5 4a1 1 0 1 0 0-.01'],
  ['signals', 'M2 10h3l2.5-6 4 12 2.5-6h4'],
  ['schedules', 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zm0 3v4l3 2'],
  ['webhooks', 'M10 3v8m0 0-3-3m3 3 3-3M3 12v4h14v-4'],
  ['directives', 'M5 3h7l3 3v11H5zM8 9h4m-4 3h4'],
  ['packages', 'M3 6.5 10 3l7 3.5v7L10 17l-7-3.5zM3 6.5l7 3.5 7-3.5M10 10v7'],
  ['plugins', 'M7 3v4m6-4v4M5 7h10v3a5 5 0 0 1-10 0zm5 8v3'],
  ['tenants', 'M3 17V8l5-4 5 4v9M13 17v-6h4v6M7 17v-4h2v4M2 17h16'],
  ['docs', 'M10 5.5C8 4 5.5 3.5 3 4v12c2.5-.5 5 0 7 1.5 2-1.5 4.5-2 7-1.5V4c-2.5-.5-5 0-7 1.5zV17'],
  ['search', 'M9 3a6 6 0 1 0 0 12A6 6 0 0 0 9 3zm4.5 10.5L17 17'],
  [
    'light',
    'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v2m0 12v2M2 10h2m12 0h2' +
      'M4.3 4.3l1.5 1.5m8.4 8.4 1.5 1.5m0-11.4-1.5 1.5m-8.4 8.4-1.5 1.5',
  ],
  ['dark', 'M16.5 12.5A7 7 0 0 1 7.5 3.5a7 7 0 1 0 9 9z'],
  ['auto', 'M10 3a7 7 0 1 0 0 14zm0 0a7 7 0 0 1 0 14'],
  ['leave', 'M8 3H4v14h4m4-11 4 4-4 4m4-4H8'],
]);

export function Icon({ name }: { readonly name: string }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <path d={paths.get(name) ?? ''} />
    </svg>
  );
}
