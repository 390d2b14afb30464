/** Directories of a service, and processes that are isolated from them. */
import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import type { AddressInfo, Server } from 'node:net';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { findIsolation, type Isolation, type IsolationTier } from '../../src/plugin/isolation.ts';
import type { Host, IsolationRules, ProcessSpec } from '../../src/plugin/process.ts';
import { describeTree, listenAt, listReached, readAttack, writeAttacker } from './attacker.ts';
import { makeDirectory } from './directory.ts';
import { makeSpec, nothing } from './hosts.ts';

const nodeDirectory = dirname(process.execPath);
export const searchedPath = `${nodeDirectory}:/usr/local/bin:/usr/bin:/bin`;
const defaultRules: IsolationRules = { network: 'host', read: [], write: [] };
export const ownUid = process.geteuid?.() ?? -1;
/** User id without any files. */
export const nobodyUid = 65_534;

export interface AttackReport {
  readonly reached: readonly string[];
  readonly before: readonly string[];
  readonly after: readonly string[];
}

export interface IsolationFixture {
  readonly directory: string;
  readonly isolation: Isolation;
  readonly confine: (spec: ProcessSpec, rules?: Partial<IsolationRules>) => ProcessSpec;
  /** Writes a program to the plugin's directory. */
  readonly write: (script: string) => string;
  readonly specOf: (entrypoint: string) => ProcessSpec;
  readonly run: (script: string, rules?: Partial<IsolationRules>) => Promise<string>;
  /** Runs the hostile plugin against all targets; returns what it reached and changed. */
  readonly attack: (rules?: Partial<IsolationRules>) => Promise<AttackReport>;
}

/** Makes the program accessible for users other than root. */
function openToAll(directory: string): void {
  for (let at = directory; statSync(at).uid === ownUid && at !== '/'; at = dirname(at)) {
    if (ownUid === 0 && (statSync(at).mode & 0o055) !== 0o055) chmodSync(at, 0o755);
  }
}

export async function makeIsolationFixture(
  tier: IsolationTier,
  { host, native, asNobody }: { host: Host; native: string; asNobody: boolean },
): Promise<IsolationFixture> {
  const directory = realpathSync(await makeDirectory());
  openToAll(directory);
  for (const name of ['state', 'config', 'config/plugins', 'packages', 'other', 'tmp']) {
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, 'file'), `of ${name}`);
  }
  const program = join(directory, 'native');
  cpSync(native, program);
  if (asNobody) execFileSync('chown', ['-R', `${nobodyUid}:${nobodyUid}`, directory]);
  const isolation = findIsolation({
    nativePath: program,
    hidden: [join(directory, 'state'), join(directory, 'config')],
    readable: [join(directory, 'config', 'plugins'), join(directory, 'packages'), nodeDirectory],
    path: searchedPath,
    uid: asNobody ? nobodyUid : ownUid,
    tiers: [tier],
  });
  const drop = asNobody
    ? ['/usr/bin/setpriv', `--reuid=${nobodyUid}`, `--regid=${nobodyUid}`, '--clear-groups']
    : [];
  const confine: IsolationFixture['confine'] = (spec, rules = {}) => {
    const confined = isolation.confine(spec, { ...defaultRules, ...rules }, 'tenant acme');
    return { ...confined, wrapper: [...drop, ...(confined.wrapper ?? [])] };
  };
  const plugin = join(directory, 'config', 'plugins');
  const specOf: IsolationFixture['specOf'] = (entrypoint) =>
    makeSpec('', { entrypoint, cwd: plugin, env: { PATH: searchedPath } });
  const start = async (entrypoint: string, rules?: Partial<IsolationRules>): Promise<string> => {
    const end = await host.run(confine(specOf(entrypoint), rules), nothing);
    return `${end.stdout.toString()}${end.stderr.toString()}`;
  };
  let count = 0;
  const write: IsolationFixture['write'] = (script) => {
    const entrypoint = join(plugin, `program-${(count += 1)}`);
    writeFileSync(entrypoint, `#!/bin/sh\n${script}\n`);
    chmodSync(entrypoint, 0o755);
    return entrypoint;
  };
  return {
    directory,
    isolation,
    confine,
    write,
    specOf,
    run: (script, rules) => start(write(script), rules),
    async attack(rules) {
      const sockets = [join(directory, 'tmp', 'socket'), `@ductile-${process.pid}-${directory}`];
      const servers: Server[] = [];
      for (const where of sockets) servers.push(await listenAt(where));
      const onLoopback = await listenAt(0);
      servers.push(onLoopback);
      if (asNobody) chownSync(sockets[0] ?? '', nobodyUid, nobodyUid);
      const { port } = onLoopback.address() as AddressInfo;
      const entrypoint = writeAttacker(plugin, {
        readOnly: [plugin, join(directory, 'packages'), directory],
        secrets: [join(directory, 'state', 'file'), join(directory, 'config', 'file')],
        closed: ['state', 'config', 'tmp', 'other'].map((name) => join(directory, name)),
        sockets,
        pids: [process.pid, process.ppid, ...(asNobody ? [startVictim()] : [])],
        ports: rules?.network === 'none' ? [port] : [],
      });
      try {
        const before = describeTree(directory);
        const printed = await start(entrypoint, rules);
        const result = readAttack((JSON.parse(printed) as { result: string }).result);
        return { reached: listReached(result), before, after: describeTree(directory) };
      } finally {
        for (const server of servers) server.close();
      }
    },
  };
}

/** Starts a process of the same user as the attacker. */
function startVictim(): number {
  const child = spawn('sleep', ['60'], {
    uid: nobodyUid,
    gid: nobodyUid,
    cwd: '/',
    stdio: 'ignore',
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child.pid ?? 0;
}
