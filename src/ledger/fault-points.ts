import { probe, type Probe } from '../base/probe.ts';
import type { CommitName } from './dialect.ts';

/** The fault points on both sides of every commit that moves work. */
const before: Partial<Record<CommitName, Probe>> = {
  enqueue: 'enqueue.before-commit',
  fire: 'fire.before-commit',
  claim: 'claim.before-commit',
  settle: 'settle.before-commit',
  advance: 'advance.before-commit',
  release: 'release.before-commit',
  reap: 'reap.before-commit',
  install: 'install.before-commit',
};

const after: Partial<Record<CommitName, Probe>> = {
  enqueue: 'enqueue.after-commit',
  fire: 'fire.after-commit',
  claim: 'claim.after-commit',
  settle: 'settle.after-commit',
  advance: 'advance.after-commit',
  release: 'release.after-commit',
  reap: 'reap.after-commit',
  install: 'install.after-commit',
  heartbeat: 'heartbeat.after-commit',
  prune: 'prune.after-commit',
};

export function beforeCommit(names: readonly CommitName[]): void {
  for (const name of names) fire(before[name]);
}

export function afterCommit(names: readonly CommitName[]): void {
  for (const name of names) fire(after[name]);
}

function fire(name: Probe | undefined): void {
  if (name !== undefined) probe(name);
}
