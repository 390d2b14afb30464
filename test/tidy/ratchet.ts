/**
 * Counts what the style of the code and the docs is moving away from. Each count has a baseline in
 * baseline.json that a change may lower and never raise. `npm run ratchet` lowers it.
 */
import { findNames } from './names.ts';
import {
  countWords,
  isMarkdown,
  type Prose,
  readComments,
  readDashboard,
  readMarkdown,
  readMessages,
  readTitles,
  splitSentences,
} from './prose.ts';
import type { Occurrence, TextFile } from './tree.ts';

export interface Count {
  readonly value: number;
  /** A baseline is never lowered below it. */
  readonly goal: number;
  readonly found: readonly Occurrence[];
}

export type Baseline = Readonly<Record<string, number>>;

const WORDS_MAX = 30;
/** A question may start with such a word. */
const OPENER = /^(?:What|Who|Whoever|Of|Those|One|Whether|Where|Nobody|Somebody)\b(?!.*\?$)/;

/** Words of the old dialect, without those that are also plain English. */
const banned = [
  /\b(?:go|goes|going|went) on\b(?! (?:hold|sale))/,
  /\banew\b/,
  /\b(?:tells(?! \S+ apart)|told)\b/,
  /(?<!\b(?:backup|snapshot|copy) )\b(?:is|are|was|were|be|been) taken\b(?! (?:from|by|over|away))/,
  /\b(?:answers|answered|answering) with\b|\bthe answer\b/,
  /\b(?:give|gives|given|giving|gave) back\b/,
  /\bgood any ?more\b/,
  /\b(?:in|into|out of) force\b/,
  /\bunder ?way\b/,
  /\bmend(?:s|ed|ing)?\b/,
  /\bstands? in (?!for\b)/,
  /(?<!\bas )\bof (?:now|then)\b/,
  /\balso (?:when|where|if|while)\b/,
  /(?<!\b(?:there|where) )\b(?:is|are|was|were) no (?!longer|more|less|fewer|later|earlier|one)/,
  /\ball the same\b/,
  /\b(?:anybody|somebody|nobody|everybody|whoever|whomever)\b/,
  /\bunless (?:told|said)\b|\bas ever\b/,
];
const bannedWords = new RegExp(banned.map(({ source }) => source).join('|'), 'gi');

/** `extras` are the bundles beside src; `titles` are those of tests. */
export function readProse(files: readonly TextFile[]): Readonly<Record<string, Prose[]>> {
  const source = files.filter(({ path }) => /^src\/.*\.ts$/.test(path));
  const extras = files.filter(({ path }) => /^extras\/.*\.ts$/.test(path));
  const web = files.filter(({ path }) => /^web\/.*\.tsx?$/.test(path));
  return {
    docs: files.filter(isMarkdown).flatMap(readMarkdown),
    comments: source.flatMap(readComments),
    messages: source.flatMap(readMessages),
    extras: extras.flatMap((file) => [...readComments(file), ...readMessages(file)]),
    titles: files.filter(({ path }) => path.endsWith('.test.ts')).flatMap(readTitles),
    dashboard: web.flatMap((file) => [...readDashboard(file), ...readComments(file)]),
  };
}

export function countAll(files: readonly TextFile[]): Record<string, Count> {
  const counts: Record<string, Count> = {};
  for (const [group, prose] of Object.entries(readProse(files))) {
    counts[`banned words in ${group}`] = toCount(prose.flatMap(findBanned));
    counts[`sentences over ${WORDS_MAX} words in ${group}`] = toCount(prose.flatMap(findLong));
    const openers = prose.flatMap(findOpeners);
    counts[`openers in ${group}`] =
      group === 'comments' ? toShare(openers, prose.length) : toCount(openers);
  }
  return { ...counts, ...countNames(files), ...countFiles(files) };
}

export function findRaised(counts: Readonly<Record<string, Count>>, baseline: Baseline): string[] {
  return Object.entries(counts).flatMap(([name, { value, goal }]) => {
    const max = Math.max(baseline[name] ?? 0, goal);
    return value > max ? [`${name}: ${value} (the baseline is ${max})`] : [];
  });
}

/** Returns the baseline with each count that has fallen; none of them rises. */
export function lowerBaseline(
  counts: Readonly<Record<string, Count>>,
  baseline: Baseline,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(counts).map(([name, { value, goal }]) => {
      const lowest = Math.max(value, goal);
      return [name, Math.min(baseline[name] ?? lowest, lowest)];
    }),
  );
}

function findBanned({ path, line, text }: Prose): Occurrence[] {
  return [...text.matchAll(bannedWords)].map(({ 0: word, index }) => {
    const around = text.slice(Math.max(0, index - 30), index + 40);
    return { path, line, text: `${word} (${around})` };
  });
}

function findLong({ path, line, text }: Prose): Occurrence[] {
  return splitSentences(text)
    .filter((sentence) => countWords(sentence) > WORDS_MAX)
    .map((sentence) => ({ path, line, text: sentence }));
}

/** In docs each sentence counts; of other texts only the first one does. */
function findOpeners({ path, line, text }: Prose): Occurrence[] {
  const sentences = splitSentences(text);
  return (path.endsWith('.md') ? sentences : sentences.slice(0, 1))
    .filter((sentence) => OPENER.test(sentence.charAt(0).toUpperCase() + sentence.slice(1)))
    .map((sentence) => ({ path, line, text: sentence.slice(0, 80) }));
}

function countNames(files: readonly TextFile[]): Record<string, Count> {
  const found = findNames(files.filter(({ path }) => /^src\/.*\.ts$/.test(path)));
  return {
    'exported names that collide': toCount(found.colliding),
    'participles as type names': toCount(found.participles),
    'hook in names': toCount(found.hooks),
    'Options, Seams and Parts': toCount(found.bags, 45),
    'callbacks in Options, Seams and Parts': toCount(found.callbacks, 10),
  };
}

function countFiles(files: readonly TextFile[]): Record<string, Count> {
  const source = files.filter(({ path }) => path.startsWith('src/'));
  const folders = Map.groupBy(source, ({ path }) => path.slice(0, path.lastIndexOf('/')));
  const widths = [...folders].map(([folder, { length }]) => [folder, length] as const);
  const lengths = source.map(({ path, text }) => [path, text.split('\n').length - 1] as const);
  return {
    'files in src': { value: source.length, goal: 540, found: [] },
    'files in the widest folder of src': toMaximum(widths, 45),
    'lines in the longest file of src': toMaximum(lengths, 400),
  };
}

function toCount(found: readonly Occurrence[], goal = 0): Count {
  return { value: found.length, goal, found };
}

/** In per cent, rounded up to a tenth. */
function toShare(found: readonly Occurrence[], total: number): Count {
  const value = total === 0 ? 0 : Math.ceil((1000 * found.length) / total) / 10;
  return { value, goal: 3, found };
}

function toMaximum(sizes: readonly (readonly [name: string, size: number])[], goal: number): Count {
  const value = Math.max(0, ...sizes.map(([, size]) => size));
  const found = sizes
    .filter(([, size]) => size > goal)
    .map(([path, size]) => ({ path, text: String(size) }));
  return { value, goal, found };
}
