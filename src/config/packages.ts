import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { manifestSchema, PACKAGE_FILE, refuseKey, toPackage } from '../package/manifest.ts';
import type { Package } from '../package/package.ts';
import { compareVersions, latest } from '../package/version.ts';
import { readDocument } from './document.ts';
import { describeIssues } from './issues.ts';
import { suggest } from './nearest.ts';
import { readPackageFiles } from './package-files.ts';
import { makeProblem, sentence, type Problem } from './problem.ts';

/** A directory with a manifest, and the package that it is, if it may be one. */
export interface FoundPackage {
  readonly directory: string;
  readonly package: Package | undefined;
  readonly problems: readonly Problem[];
}

export interface Packages {
  /** By slug, and the newest version of each first. */
  readonly packages: readonly Package[];
  readonly problems: readonly Problem[];
}

/** All packages under the roots, read anew; one that is bad is left out and reported. */
export function findPackages(roots: readonly string[]): Packages {
  const packages = new Map<string, Package>();
  const problems: Problem[] = [];
  for (const directory of roots.flatMap((root) => directoriesOf(root, problems))) {
    const found = readPackage(directory);
    problems.push(...found.problems);
    if (found.package === undefined) continue;
    const { slug, version, place } = found.package;
    const key = `${slug}@${version}`;
    const first = packages.get(key);
    if (first === undefined) packages.set(key, found.package);
    else if (first.hash !== found.package.hash) {
      const message = `is ${key}, which is there already (${first.place}) with another content`;
      problems.push(makeProblem(place, '', `the package ${message}`, 'Give it another version.'));
    }
  }
  const all = [...packages.values()].sort((a, b) => {
    if (a.slug !== b.slug) return a.slug < b.slug ? -1 : 1;
    return compareVersions(b.version, a.version);
  });
  return { packages: all, problems };
}

/** One version of a package; `latest` is the newest that is no trial. Throws PACKAGE_NOT_FOUND. */
export function pickPackage(found: Packages, slug: string, version: string): Package {
  const { packages } = found;
  const versions = packages.filter((one) => one.slug === slug);
  const wanted = version === 'latest' ? latest(versions.map((one) => one.version)) : version;
  const picked = versions.find((one) => one.version === wanted);
  if (picked !== undefined) return picked;
  if (versions.length > 0) {
    throw new DuctileError('PACKAGE_NOT_FOUND', `there is no version ${version} of ${slug}`, {
      place: 'version',
      hint: `The versions are ${versions.map((one) => one.version).join(', ')}.`,
    });
  }
  const slugs = [...new Set(packages.map((one) => one.slug))];
  throw new DuctileError('PACKAGE_NOT_FOUND', `there is no package ${slug}`, {
    place: slug,
    hint: explainBroken(found, slug) ?? suggest(slug, slugs, 'packages'),
  });
}

/** One that is there and cannot be used is not simply unknown. */
function explainBroken({ problems }: Packages, slug: string): string | undefined {
  const isMeant = problems.some(({ place }) => place.split(sep).includes(slug));
  if (!isMeant) return undefined;
  return 'Something of that name is there and cannot be used: `ductile package list` says why.';
}

export function readPackage(directory: string): FoundPackage {
  const file = join(directory, PACKAGE_FILE);
  if (!existsSync(file)) {
    const problem = makeProblem(file, '', 'the file does not exist', 'Name the directory of one.');
    return { directory, package: undefined, problems: [problem] };
  }
  const files = readPackageFiles(directory);
  const document = readDocument(file, limits.packageFileBytesMax);
  const problems = [...files.problems, ...document.problems];
  if (document.problems.length > 0) return { directory, package: undefined, problems };
  const parsed = manifestSchema.safeParse(document.value);
  if (!parsed.success) {
    const refusalOf = (path: readonly PropertyKey[]) => refuseKey(String(path.at(-1)));
    const { issues } = parsed.error;
    problems.push(...describeIssues(issues, manifestSchema, document, { refusalOf }));
    return { directory, package: undefined, problems };
  }
  if (problems.length > 0) return { directory, package: undefined, problems };
  const found = { hash: files.hash, directory, place: file };
  return { directory, package: toPackage(parsed.data, found), problems };
}

/** More would not be read in one sentence; all of them are in its details. */
const PROBLEMS_SAID = 5;

/** What is wrong with a package, as the error that refuses it. */
export function packageInvalid(problems: readonly Problem[]): DuctileError {
  const [first] = problems;
  const words = problems.slice(0, PROBLEMS_SAID).map((one) => sentence(one));
  return new DuctileError('PACKAGE_INVALID', words.join('; '), {
    ...(first === undefined ? {} : { place: first.place }),
    ...(first?.hint === undefined ? {} : { hint: first.hint }),
    details: { problems },
  });
}

/** `<root>/<package>` and `<root>/<package>/<version>`; links to directories are not followed. */
function directoriesOf(root: string, problems: Problem[]): string[] {
  try {
    if (!statSync(root).isDirectory()) throw new Error('it is not a directory');
    const real = realpathSync(root);
    if (isPackage(real)) return [real];
    return inside(real).flatMap((path) =>
      isPackage(path) ? [path] : inside(path).filter(isPackage),
    );
  } catch (thrown) {
    const message = `names ${root}, which cannot be searched: ${messageOf(thrown)}`;
    problems.push(makeProblem(root, 'package_roots', message));
    return [];
  }
}

function inside(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => join(directory, name))
    .sort()
    .slice(0, limits.packagesMax);
}

function isPackage(directory: string): boolean {
  return existsSync(join(directory, PACKAGE_FILE));
}
