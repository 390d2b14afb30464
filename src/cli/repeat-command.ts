import { quoteShell } from '../base/text.ts';

/** The command line again, with more words; what is secret in it is left out. */
export function repeatCommand(argv: readonly string[], more: readonly string[]): string {
  const words = dropFlags(argv, more);
  return ['ductile', ...words, ...more].map(quoteShell).join(' ');
}

/** A token isn't repeated, and a flag that comes again is said once. */
function dropFlags(argv: readonly string[], more: readonly string[]): string[] {
  const dropped = new Set(['--token', ...more.filter((word) => word.startsWith('--'))]);
  const takesValue = new Set(['--token', '--cursor', '--limit']);
  const kept: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? '';
    const [name = ''] = word.split('=');
    if (!dropped.has(name)) kept.push(word);
    else if (takesValue.has(name) && !word.includes('=')) at += 1;
  }
  return kept;
}
