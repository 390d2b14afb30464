/** The files in deploy/ fit the rest of the repository. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { makeDirectory } from '../support/directory.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, 'deploy', path), 'utf8');

describe('the Dockerfile', () => {
  const text = read('Dockerfile').replaceAll(/\\\n\s*/g, ' ');
  const lines = text.split('\n').map((line) => line.trim());
  const copies = lines
    .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
    .flatMap((line) => line.split(' ').slice(1, -1));

  test('copies what is there, and nothing that is ignored', () => {
    const included = read('Dockerfile.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    expect(copies.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(new Set(copies.map((path) => path.split('/')[0]))).toEqual(new Set(included));
  });

  test('runs as a user without rights, and has a health check', () => {
    const users = lines.filter((line) => line.startsWith('USER '));
    expect(users.at(-1)).toBe('USER node');
    expect(lines.findIndex((line) => line.startsWith('USER'))).toBeLessThan(
      lines.findIndex((line) => line.startsWith('ENTRYPOINT')),
    );
    expect(text).toMatch(/HEALTHCHECK [^\n]*\/healthz/);
  });
});

interface ComposeService {
  readonly image: string;
  readonly volumes?: string[];
  readonly build?: { readonly dockerfile: string };
  readonly healthcheck?: { readonly test: readonly string[] };
}

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
}

describe('the compose file', () => {
  const compose = parse(read('compose/compose.yaml'), { merge: true }) as Compose;

  test('has two hosts on one database, each with a state of its own', () => {
    const hosts = Object.values(compose.services).filter(({ image }) => image === 'ductile');
    expect(hosts).toHaveLength(2);
    const states = hosts.map(({ volumes = [] }) =>
      volumes.find((volume) => volume.endsWith(':/var/lib/ductile')),
    );
    expect(new Set(states).size).toBe(2);
    for (const { build } of hosts) {
      expect(existsSync(join(root, build?.dockerfile ?? 'nothing'))).toBe(true);
    }
    expect(compose.services['postgres']?.image).toMatch(/^postgres:/);
  });

  test('gives no container a right or a writable file system that it does not need', () => {
    for (const [name, service] of Object.entries(compose.services)) {
      expect(service).toMatchObject({
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        pids_limit: expect.any(Number),
        healthcheck: { test: expect.any(Array) },
      });
      if (name === 'postgres') continue;
      expect(service).toMatchObject({ user: 'node', read_only: true, init: true });
      expect(service).toHaveProperty('tmpfs', [expect.stringMatching(/^\/tmp:/)]);
      expect(service).not.toHaveProperty('cap_add');
      expect(service.healthcheck?.test.join(' ')).toContain('/healthz');
    }
  });

  test('comes with a configuration that loads', async () => {
    const env = { POSTGRES_PASSWORD: 'p', DUCTILE_TOKEN: 'a-long-enough-token-for-anybody' };
    const directory = await makeDirectory();
    const file = join(directory, 'config.yaml');
    // Its plugins are where the image has them.
    const text = read('compose/config/config.yaml').replace(
      '/opt/ductile/dist/plugins',
      join(root, 'plugins'),
    );
    writeFileSync(file, text, { mode: 0o600 });
    const config = loadConfig({ given: file, env, home: directory });
    expect(config.state).toMatchObject({ kind: 'postgres', dir: '/var/lib/ductile' });
    expect(config.api).toMatchObject({ enabled: true, host: '0.0.0.0', port: 8080 });
    expect(config.api.auth.tokens.map(({ scopes }) => scopes)).toEqual([['*']]);
  });
});

describe('the unit for systemd', () => {
  const unit = read('ductile.service');
  const hasAnalyze = spawnSync('systemd-analyze', ['--version']).error === undefined;

  test.runIf(hasAnalyze)('is one that systemd understands', async () => {
    const path = join(await makeDirectory(), 'ductile.service');
    // The program is not installed here.
    writeFileSync(path, unit.replace('/usr/local/bin/ductile', '/bin/true'));
    const { stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', path], {
      encoding: 'utf8',
    });
    const problems = `${stdout}${stderr}`
      .split('\n')
      .filter((line) => line.includes(basename(path)));
    expect(problems).toEqual([]);
  });

  // The score is between 0 and 100, and 0 is best. Plugins need the rest: the network, namespaces,
  // files.
  test.runIf(hasAnalyze)('is exposed no more than systemd calls acceptable', async () => {
    const path = join(await makeDirectory(), 'ductile.service');
    writeFileSync(path, unit);
    const words = ['security', '--offline=true', '--no-pager', '--threshold=32', path];
    const { status, stdout } = spawnSync('systemd-analyze', words, { encoding: 'utf8' });
    expect(stdout).toContain('Overall exposure level');
    expect(status).toBe(0);
  });

  test('filters system calls and leaves those that isolate plugins', () => {
    const lines = unit.split('\n').filter((line) => !line.startsWith('#'));
    const calls = lines.filter((line) => line.startsWith('SystemCallFilter=')).join(' ');
    for (const name of ['@system-service', '@mount', 'seccomp', 'landlock_restrict_self']) {
      expect(calls).toContain(name);
    }
    expect(lines).toContain('RestrictNamespaces=user mnt pid net ipc uts');
    // A covered /proc can't be mounted again in a PID namespace; a read-only cgroup tree has no limits.
    const forbidden =
      /^(ProtectKernel(Tunables|Logs)|ProtectHostname|ProcSubset|ProtectControlGroups)=/;
    expect(lines.filter((line) => forbidden.test(line))).toEqual([]);
    expect(lines).toContain('Delegate=memory pids cpu');
  });

  test('is ready when it says so, reloads by SIGHUP, and has no special user', () => {
    for (const line of [
      'Type=notify',
      'NotifyAccess=all',
      'ExecReload=/bin/kill -HUP $MAINPID',
      'User=ductile',
      'RestartPreventExitStatus=78',
      'NoNewPrivileges=yes',
    ]) {
      expect(unit.split('\n')).toContain(line);
    }
    // Node compiles at run time.
    expect(unit).not.toContain('MemoryDenyWriteExecute');
  });
});
