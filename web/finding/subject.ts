import { link } from '../route.ts';
import { splitCommand } from './remedy.ts';

/** Fields of a finding that its link depends on. */
export interface FindingLike {
  readonly id: string;
  readonly key: string;
  readonly category: string;
  readonly commands: readonly string[];
  readonly why: string | null;
}

/** Object of a finding, with the address of its page. */
export interface Subject {
  readonly noun: string;
  readonly href: string;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Page of the first argument of a command, by the command's noun. */
const pages: ReadonlyMap<string, string> = new Map([
  ['run', 'runs'],
  ['job', 'jobs'],
  ['incident', 'incidents'],
  ['signal', 'signals'],
  ['directive', 'directives'],
  ['webhook', 'webhooks'],
  ['plugin', 'plugins'],
  ['package', 'packages'],
  ['tenant', 'tenants'],
]);

/** Nouns whose objects have an id; commands may contain only its first characters. */
const withId = new Set(['run', 'job', 'incident', 'signal', 'directive']);

/** Finds the object of a finding by its commands, then by its kind and its category. */
export function findSubject(finding: FindingLike): Subject | undefined {
  // The commands of such a finding may name the object that blocks the schedule.
  if (finding.id.startsWith('schedule_'))
    return readCategory({ ...finding, category: 'schedules' });
  for (const command of finding.commands) {
    const found = readSubject(splitCommand(command) ?? []);
    if (found !== undefined) return found;
  }
  return readKind(finding) ?? readCategory(finding);
}

function readSubject([program, noun = '', action, first, second]: readonly string[]):
  | Subject
  | undefined {
  if (program !== 'ductile' || first === undefined || first.startsWith('-')) return undefined;
  if (noun === 'breaker' && action !== 'list') {
    return { noun: 'plugin', href: link('plugins', { id: first }) };
  }
  if (noun === 'schedule') return toScheduleSubject(`${first}/${second ?? 'default'}`);
  const page = pages.get(noun);
  if (page === undefined || (withId.has(noun) && !/^[0-9a-f-]{4,36}$/.test(first))) {
    return undefined;
  }
  return { noun, href: link(page, { id: first }) };
}

/** Reads the noun from a kind such as `run_halted`; `why` contains the id. */
function readKind({ id, why }: FindingLike): Subject | undefined {
  const [noun = ''] = id.split(/[_:]/);
  const page = pages.get(noun);
  if (why === null || page === undefined || !withId.has(noun) || !UUID.test(why)) return undefined;
  return { noun, href: link(page, { id: why }) };
}

/** Categories whose `why` contains the id of an object, with its noun. */
const byCategory: ReadonlyMap<string, string> = new Map([
  ['jobs', 'job'],
  ['pipelines', 'run'],
  ['signals', 'signal'],
]);

function readCategory({ category, key, why }: FindingLike): Subject | undefined {
  const noun = byCategory.get(category);
  if (noun !== undefined) {
    const isId = why !== null && UUID.test(why);
    return isId ? { noun, href: link(pages.get(noun) ?? '', { id: why }) } : undefined;
  }
  const named = key.replace(/^(webhook|package|tenant|plugin) /, '');
  if (category === 'schedules') {
    const name = [why, key].find((text) => text?.includes('/') === true);
    return name === undefined || name === null ? undefined : toScheduleSubject(name);
  }
  if (category === 'webhooks' && named !== '') {
    return { noun: 'webhook', href: link('webhooks', { id: named }) };
  }
  if (category === 'packages' && key.startsWith('package ')) {
    return { noun: 'package', href: link('packages', { id: named }) };
  }
  return undefined;
}

function toScheduleSubject(name: string): Subject {
  return { noun: 'schedule', href: link('schedules', { id: name }) };
}
