import {
  existsSync,
  readdirSync,
  realpathSync,
  statSync,
  lstatSync,
  readFileSync,
  type Dirent,
} from 'node:fs';
import { join, sep, extname, relative } from 'node:path';
import { blake3 } from '../base/blake3.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import {
  manifestSchema,
  PACKAGE_FILE,
  explainRefusedKey,
  toPackage,
  type Package,
} from '../package/package.ts';
import { compareVersions, findLatest } from '../package/version.ts';
import { readDocument } from './document.ts';
import { describeIssues } from './issues.ts';
import { suggest } from '../base/text.ts';
import { makeProblem, sentence, type Problem } from './problem.ts';

/** A directory with a package manifest, and its package if it is valid. */
interface PackageReading {
  readonly directory: string;
  readonly package: Package | undefined;
  readonly problems: readonly Problem[];
}

export interface PackageListing {
  /** Sorted by slug, newest version first. */
  readonly packages: readonly Package[];
  readonly problems: readonly Problem[];
}

/** Reads all packages under the roots. An invalid package is left out and reported. */
export function findPackages(roots: readonly string[]): PackageListing {
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
      const message = `${key} already exists with other content (${first.place})`;
      problems.push(makeProblem(place, '', `the package ${message}`, 'Change its version.'));
    }
  }
  const all = [...packages.values()].sort((a, b) => {
    if (a.slug !== b.slug) return a.slug < b.slug ? -1 : 1;
    return compareVersions(b.version, a.version);
  });
  return { packages: all, problems };
}

/**
 * Picks a version of a package; `latest` is the newest that isn't a prerelease. Throws
 * PACKAGE_NOT_FOUND.
 */
export function pickPackage(found: PackageListing, slug: string, version: string): Package {
  const { packages } = found;
  const versions = packages.filter((one) => one.slug === slug);
  const wanted = version === 'latest' ? findLatest(versions.map((one) => one.version)) : version;
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

/** Explains that a package exists but is invalid. */
function explainBroken({ problems }: PackageListing, slug: string): string | undefined {
  const isMeant = problems.some(({ place }) => place.split(sep).includes(slug));
  if (!isMeant) return undefined;
  return 'A package of that name exists but is invalid. Run `ductile package list` to see why.';
}

export function readPackage(directory: string): PackageReading {
  const file = join(directory, PACKAGE_FILE);
  if (!existsSync(file)) {
    const hint = 'Name the directory of a package.';
    const problem = makeProblem(file, '', 'the file does not exist', hint);
    return { directory, package: undefined, problems: [problem] };
  }
  const files = readPackageFiles(directory);
  const document = readDocument(file, limits.packageFileBytesMax);
  const problems = [...files.problems, ...document.problems];
  if (document.problems.length > 0) return { directory, package: undefined, problems };
  const parsed = manifestSchema.safeParse(document.value);
  if (!parsed.success) {
    const refusalOf = (path: readonly PropertyKey[]) => explainRefusedKey(String(path.at(-1)));
    const { issues } = parsed.error;
    problems.push(...describeIssues(issues, manifestSchema, document, { refusalOf }));
    return { directory, package: undefined, problems };
  }
  if (problems.length > 0) return { directory, package: undefined, problems };
  const found = { hash: files.hash, directory, place: file };
  return { directory, package: toPackage(parsed.data, found), problems };
}

/** Problems in the message of an error; its details have all. */
const PROBLEMS_SHOWN = 5;

/** Makes the error that refuses a package. */
export function packageInvalid(problems: readonly Problem[]): DuctileError {
  const [first] = problems;
  const sentences = problems.slice(0, PROBLEMS_SHOWN).map(sentence);
  return new DuctileError('PACKAGE_INVALID', sentences.join('; '), {
    place: first?.place,
    hint: first?.hint,
    details: { problems },
  });
}

/**
 * Finds `<root>/<package>` and `<root>/<package>/<version>`. Links to directories aren't followed.
 */
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

interface PackageFiles {
  /** BLAKE3 over the names and contents of all files. */
  readonly hash: string;
  readonly problems: readonly Problem[];
}

/** Extensions of files that are data and never code. */
const allowed: ReadonlySet<string> = new Set(['.yaml', '.yml', '.json', '.md', '.txt']);
/** Names without an extension that aren't code. */
const plain: ReadonlySet<string> = new Set(['LICENSE', 'NOTICE', 'README', 'CHANGELOG']);

const EXECUTABLE = 0o111;
const WORLD_WRITABLE = 0o002;

/** Reads the directory of a package. Every file that could be code is a problem. */
function readPackageFiles(directory: string): PackageFiles {
  const reading: FilesReading = { root: directory, entries: [], problems: [], bytes: 0 };
  visit(directory, reading, 0);
  const listed = reading.entries.toSorted(([a], [b]) => (a < b ? -1 : 1));
  const hash = blake3(Buffer.from(JSON.stringify(listed)));
  return { hash, problems: reading.problems };
}

interface FilesReading {
  readonly root: string;
  readonly entries: (readonly [name: string, hash: string])[];
  readonly problems: Problem[];
  bytes: number;
}

function visit(directory: string, reading: FilesReading, depth: number): void {
  let entries: Dirent[];
  try {
    entries = readdirSync(directory, { withFileTypes: true });
  } catch (thrown) {
    refuse(reading, directory, `cannot be read: ${messageOf(thrown)}`);
    return;
  }
  if (depth > limits.packageDepthMax) {
    refuse(reading, directory, `is more than ${limits.packageDepthMax} levels deep`);
    return;
  }
  for (const entry of entries) {
    if (reading.problems.length >= limits.problemsMax) return;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) visit(path, reading, depth + 1);
    else readFile(path, entry, reading);
  }
}

function readFile(path: string, entry: Dirent, reading: FilesReading): void {
  const fault = refuseFile(path, entry);
  if (fault !== undefined) return refuse(reading, path, fault.message, fault.hint);
  try {
    const bytes = readFileSync(path);
    reading.bytes += bytes.length;
    reading.entries.push([relative(reading.root, path), blake3(bytes)]);
  } catch (thrown) {
    return refuse(reading, path, `cannot be read: ${messageOf(thrown)}`);
  }
  if (reading.entries.length === limits.packageFilesMax + 1) {
    refuse(reading, reading.root, `has more than ${limits.packageFilesMax} files`);
  }
}

function refuseFile(path: string, entry: Dirent): { message: string; hint: string } | undefined {
  const hint = 'A package contains only metadata. Remove the file, or move it to a plugin.';
  if (entry.isSymbolicLink()) return { message: 'is a symbolic link', hint };
  if (!entry.isFile()) return { message: 'is not a regular file', hint };
  const { mode, size } = lstatSync(path);
  const isWords = allowed.has(extname(entry.name).toLowerCase()) || plain.has(entry.name);
  if (!isWords) return { message: 'could be code; only YAML, JSON and Markdown are allowed', hint };
  if ((mode & EXECUTABLE) !== 0) {
    return { message: 'is executable', hint: `Run \`chmod -x ${path}\`.` };
  }
  if ((mode & WORLD_WRITABLE) !== 0) {
    return { message: 'is writable by all users', hint: `Run \`chmod o-w ${path}\`.` };
  }
  if (size <= limits.packageFileBytesMax) return undefined;
  return { message: `is larger than ${limits.packageFileBytesMax} bytes`, hint: 'Shorten it.' };
}

function refuse(reading: FilesReading, path: string, message: string, hint?: string): void {
  reading.problems.push(makeProblem(path, '', `the file ${message}`, hint));
}
