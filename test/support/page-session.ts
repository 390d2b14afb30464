/** A shell in which the commands of one documentation page run, in an empty home directory. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { makeDirectory } from './directory.ts';
import { eventually } from './instance.ts';

const root = resolve(import.meta.dirname, '../..');

export interface PageSession {
  /** Runs lines in the shell and returns what they print. The first that fails ends them. */
  readonly run: (lines: string) => Promise<string>;
  /** Runs one command that may fail, because the page shows its message. */
  readonly show: (command: string) => Promise<string>;
  /** Starts a service in the background and waits until it is ready. */
  readonly start: (command: string) => Promise<void>;
  readonly write: (path: string, text: string, appends: boolean) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Lists of the newest objects, for `<id>` and others in a command. */
const newest: Readonly<Record<string, readonly [list: string, field: string]>> = {
  id: ['job list', 'job_id'],
  run: ['run list', 'run_id'],
  signal: ['signal list', 'signal_id'],
  directive: ['directive list', 'directive_id'],
  delivery: ['webhook deliveries', 'delivery_id'],
};

/** Default ports of the service, and those of the servers of recipes. Each session has free ones instead. */
const shownPorts = ['8080', '8081', '8091', '8092', '8093', '8094', '8095'];

export async function openPageSession(): Promise<PageSession> {
  const place = await makeDirectory();
  const home = join(place, 'home');
  const bin = join(place, 'bin');
  await mkdir(home, { mode: 0o700 });
  await mkdir(join(home, 'srv'));
  await mkdir(bin);
  const ports = new Map<string, string>();
  for (const port of shownPorts) ports.set(port, String(await findPort()));
  await writeFile(join(bin, 'ductile'), launcher(ports.get('8080') ?? ''));
  await chmod(join(bin, 'ductile'), 0o755);
  // Pages name files of the repository by these paths.
  for (const name of ['examples', 'sdk', 'plugins']) {
    await symlink(join(root, name), join(place, name));
  }
  const env = {
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    HOME: home,
    TZ: 'UTC',
    LANG: 'C.UTF-8',
    TMPDIR: place,
  };
  const shell = spawn('bash', ['--noprofile', '--norc'], { cwd: home, env, stdio: 'pipe' });
  const closed = once(shell, 'close');
  const statuses = createInterface(shell.stdout)[Symbol.asyncIterator]();
  shell.stdin.on('error', () => {});
  const shellOutput = join(place, 'output');
  const tokens: string[] = [];
  const logs: string[] = [];

  const fill = (text: string): string =>
    text
      .replaceAll(/\blocalhost:(?=80)/g, '127.0.0.1:')
      .replaceAll(/\b80(?:8[01]|9[1-5])\b/g, (port) => ports.get(port) ?? port)
      .replaceAll(/(?<![\w.~-])\/srv\b/g, `${home}/srv`)
      .replaceAll('<token>', tokens.at(-1) ?? '<token>')
      .replaceAll(/<(id|run|signal|directive|delivery)>/g, (_, name: string) => {
        const [list = '', field = ''] = newest[name] ?? [];
        return `$(ductile ${list} --limit 1 --json | grep -m1 '"${field}"' | cut -d'"' -f4)`;
      });

  /** Returns text as the page would show it. */
  const unfill = (text: string): string => {
    let shown = text.replaceAll(`${home}/srv`, '/srv').replaceAll(home, '~');
    for (const [port, free] of ports) shown = shown.replaceAll(free, port);
    return shown;
  };

  const send = async (lines: string): Promise<{ ok: boolean; printed: string }> => {
    const script = join(place, 'script');
    await writeFile(script, `${lines}\n`);
    shell.stdin.write(`. ${script} </dev/null >${shellOutput} 2>&1; echo $?\n`);
    const status = await statuses.next();
    const printed = await readFile(shellOutput, 'utf8');
    tokens.push(...(printed.match(/\bduct_[\w-]+/g) ?? []));
    return { ok: status.done !== true && status.value === '0', printed: unfill(printed) };
  };

  const run = async (lines: string): Promise<string> => {
    // A subshell would lose `cd` and `export`, so the shell itself ends at the first failure.
    const { ok, printed } = await send(`set -e\n${fill(lines)}\nset +e`);
    if (!ok) throw new Error(`this failed:\n${lines}\n${printed}`);
    return printed;
  };

  await run(functions);
  return {
    run,
    show: async (command) => (await send(fill(command))).printed,
    start: async (command) => {
      const log = join(place, `service-${logs.length}.log`);
      logs.push(log);
      await run(
        `service_log=${log}\n${command.trim().replace(/\s+#.*$/, '')} >${log} 2>&1 &\nservice=$!`,
      );
      const ready = /ductile is ready|dashboard/i;
      await eventually(`\`${command.trim()}\` is ready`, async () => {
        const text = await readFile(log, 'utf8').catch(() => '');
        if (/^(error|DuctileError|ductile:)/im.test(text)) throw new Error(text);
        return ready.test(text);
      });
    },
    write: async (path, text, appends) => {
      const source = join(place, 'file');
      await writeFile(source, fill(text));
      const lines = [
        `target=${path}`,
        '(umask 077; mkdir -p "$(dirname "$target")")',
        `cat ${source} ${appends ? '>>' : '>'} "$target"`,
        ...(text.startsWith('#!') ? ['chmod +x "$target"'] : []),
      ];
      await run(lines.join('\n'));
    },
    close: async () => {
      shell.stdin.end('stop_service; exit 0\n');
      await closed;
    },
  };
}

/** `stop_service` ends the service as Ctrl-C would; `kill_service` as a power failure would. */
const functions = `
end_service() { [ -z "\${service:-}" ] || { kill "$1" "$service"; wait "$service" || true; service=; }; }
stop_service() { end_service -TERM; }
kill_service() { end_service -KILL; }
`;

/** The program. \`init\` would choose the default port, which others may use. */
function launcher(port: string): string {
  const program = `exec '${process.execPath}' '${join(root, 'bin/ductile.cjs')}'`;
  return `#!/bin/sh
case " $* " in
*" --api "* | *" --no-api "*) ;;
" init "*) ${program} "$@" --api 127.0.0.1:${port} ;;
esac
${program} "$@"
`;
}

/** Finds a port below those that the system hands out, so that no client gets it meanwhile. */
async function findPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((done) => {
      server.once('error', () => done(false));
      server.listen(port, '127.0.0.1', () => done(true));
    });
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}
