/**
 * A separate network for a server, with one cable to this machine, on which packets get lost in one
 * direction or both. The loss is silent: the sender repeats, as on a real network.
 */
import { spawnSync } from 'node:child_process';
import { onTestFinished } from 'vitest';
import type { Direction, Proxy } from '../../support/crash/proxy.ts';
import { preload, preloadLack } from '../native/preload.ts';

export interface Network {
  /** The address of this machine for the server. */
  readonly address: string;
  /** The command prefix that starts the server in it. */
  readonly environment: Readonly<Record<string, string>>;
  lose(...directions: readonly Direction[]): void;
  restore(): void;
}

/** A rate at which no packet is ever sent. */
const stopped = ['tbf', 'rate', '8bit', 'burst', '1', 'limit', '1'];

export const networkLack: string | undefined = preloadLack ?? findLack();

function findLack(): string | undefined {
  const order = `ip link set lo up && tc qdisc add dev lo root ${stopped.join(' ')}`;
  const { status } = spawnSync('unshare', ['--net', 'sh', '-c', order]);
  return status === 0 ? undefined : 'networks need root, ip, unshare and tc with tbf';
}

const NETS_MAX = 250;

/** Networks of a process at the same time have different small numbers. */
export function makeNetwork(number: number): Network {
  const name = `ductile-${process.pid}-${number}`;
  const near = `d${process.pid}n${number}`;
  const far = `d${process.pid}f${number}`;
  const net = `10.213.${process.pid % NETS_MAX}`;
  const [here, there] = [`${net}.${number * 4 + 1}`, `${net}.${number * 4 + 2}`];
  onTestFinished(() => {
    // Removing one end of the cable removes the other, too.
    spawnSync('ip', ['link', 'del', near]);
    spawnSync('ip', ['netns', 'del', name]);
  });
  ip('netns', 'add', name);
  ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name);
  ip('addr', 'add', `${here}/30`, 'dev', near);
  ip('link', 'set', near, 'up');
  ip('-n', name, 'addr', 'add', `${there}/30`, 'dev', far);
  ip('-n', name, 'link', 'set', far, 'up');
  ip('-n', name, 'link', 'set', 'lo', 'up');
  const ends: Readonly<Record<Direction, readonly string[]>> = {
    requests: ['-n', name, 'qdisc', 'replace', 'dev', far, 'root'],
    answers: ['qdisc', 'replace', 'dev', near, 'root'],
  };
  return {
    address: here,
    environment: { ...preload('network'), NETWORK_FILE: `/run/netns/${name}` },
    lose: (...directions) =>
      directions.forEach((direction) => run('tc', ...ends[direction], ...stopped)),
    restore: () => Object.values(ends).forEach((end) => run('tc', ...end, 'pfifo')),
  };
}

/** A connection through the cable; while packets get lost, its end isn't noticed. */
export function onCable(proxy: Proxy, network: Network): Proxy {
  return {
    ...proxy,
    async cut() {
      network.lose('requests', 'answers');
      await proxy.cut();
    },
    async restore() {
      await proxy.restore();
      network.restore();
    },
    hold: (...directions) => network.lose(...directions),
    release: () => network.restore(),
  };
}

function ip(...args: readonly string[]): void {
  run('ip', ...args);
}

function run(program: string, ...args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(`${program} ${args.join(' ')}: ${stderr}`);
}
