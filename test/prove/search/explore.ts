/** All reachable states, and whether each can still reach an end. */
import { isTerminal } from '../../../src/job/job.ts';
import { next, type MachineJob, type State } from './machine.ts';

export interface SearchResult {
  readonly states: number;
  readonly moves: number;
  /** States in which all jobs have ended. */
  readonly ends: number;
}

/** Searches breadth-first; throws at the first state that breaks a rule. */
export function explore(first: State): SearchResult {
  const known = new Map<string, number>([[toKey(first), 0]]);
  const states: State[] = [first];
  const cameFrom: number[][] = [[]];
  let moves = 0;
  for (let index = 0; index < states.length; index += 1) {
    const state = states[index] ?? first;
    for (const other of next(state)) {
      moves += 1;
      checkMove(state, other);
      const key = toKey(other);
      const found = known.get(key);
      if (found !== undefined) {
        cameFrom[found]?.push(index);
        continue;
      }
      checkState(other);
      known.set(key, states.length);
      states.push(other);
      cameFrom.push([index]);
    }
  }
  const ends = states.flatMap((state, index) => (isOver(state) ? [index] : []));
  checkEnds(states, cameFrom, ends);
  return { states: states.length, moves, ends: ends.length };
}

/** Checks that every state can reach an end. */
function checkEnds(
  states: readonly State[],
  cameFrom: readonly (readonly number[])[],
  ends: readonly number[],
): void {
  const canEnd = new Uint8Array(states.length);
  const open = [...ends];
  for (let index = open.pop(); index !== undefined; index = open.pop()) {
    if (canEnd[index] === 1) continue;
    canEnd[index] = 1;
    open.push(...(cameFrom[index] ?? []));
  }
  const stuck = canEnd.indexOf(0);
  if (stuck >= 0) throw new Error(`no way out: ${JSON.stringify(states[stuck])}`);
}

function checkMove(before: State, after: State): void {
  before.jobs.forEach((job, index) => {
    const then = after.jobs[index];
    if (then === undefined) throw new Error('I1: a job is gone');
    const move = (): string => `${describe(job)} → ${describe(then)}`;
    if (isTerminal(job.status) && then.status !== job.status) throw new Error(`I2: ${move()}`);
    if (then.attempt < job.attempt || then.attempt > job.attempt + 1)
      throw new Error(`I4: ${move()}`);
    if (job.isToStop && then.status === 'queued') throw new Error(`I13: ${move()}`);
    if (job.status === 'running' && then.status === 'running' && job.token !== then.token) {
      throw new Error(`I5: ${move()}`);
    }
  });
}

function checkState(state: State): void {
  for (const job of state.jobs) {
    const attempts = job.log.map((line) => line.split(' ')[0]);
    if (new Set(attempts).size < attempts.length) throw new Error(`I3: ${describe(job)}`);
    if (job.retryCount > 2 || job.crashCount > 2) throw new Error(`I4: ${describe(job)}`);
    if ((job.status === 'running') !== (job.token !== null))
      throw new Error(`I5: ${describe(job)}`);
    const successes = job.log.filter((line) => line.endsWith('succeeded')).length;
    if (successes !== (job.status === 'succeeded' ? 1 : 0)) throw new Error(`I3: ${describe(job)}`);
  }
}

function isOver(state: State): boolean {
  return state.jobs.every(({ status }) => isTerminal(status));
}

function describe(job: MachineJob): string {
  return JSON.stringify(job);
}

/**
 * States that differ only in names are equal: of a token, only its owner, whether it is of the current
 * life, and its equality to other tokens count, and the workers are interchangeable. Of the log, only
 * the number of lines counts.
 */
function toKey(state: State): string {
  const [one, other] = [keyWith(state, [0, 1]), keyWith(state, [1, 0])];
  return one < other ? one : other;
}

/** Written out, because there are millions of them, and a general function is several times slower. */
function keyWith({ jobs, workers, ...left }: State, order: readonly number[]): string {
  const names: string[] = [];
  const nameOf = (token: string | null): string => {
    if (token === null) return '-';
    if (!names.includes(token)) names.push(token);
    const owner = Number(token.slice(0, 1));
    const isOld = !token.startsWith(`${owner}.${workers[owner]?.life}.`);
    return `${order[owner]}${isOld ? 'o' : 'n'}${names.indexOf(token)}`;
  };
  let key = '';
  for (const { status, attempt, retryCount, crashCount, interruptCount, ...job } of jobs) {
    key += `${status} ${attempt} ${retryCount} ${crashCount} ${interruptCount} ${job.suspect} `;
    key += `${job.isToStop} ${nameOf(job.token)} ${job.log.length};`;
  }
  for (const index of order) {
    const { isUp, held } = workers[index] ?? {};
    key += `${isUp}`;
    if (held) key += ` ${held.job} ${held.attempt} ${held.phase} ${nameOf(held.token)}`;
    key += ';';
  }
  return `${key}${left.crashes} ${left.expiries} ${left.losses} ${left.cancels} ${left.leaves}`;
}
