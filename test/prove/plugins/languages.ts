/** The same small deeds in three languages, of which plugins that misbehave are put together. */
import { execFileSync } from 'node:child_process';

export const languages = ['sh', 'python', 'node'] as const;
export type Language = (typeof languages)[number];

/** Statements of a program. Printed texts are given as bytes. */
export interface Deeds {
  /** The first lines of a program. */
  readonly head: string;
  readonly read: string;
  readonly print: (text: string | Buffer) => string;
  /** Writes so many zero bytes to a descriptor. */
  readonly flood: (descriptor: 1 | 2, bytes: number) => string;
  readonly pause: (seconds: number) => string;
  readonly hang: string;
  readonly spin: string;
  readonly exit: (code: number) => string;
  readonly signalSelf: (signal: string) => string;
  readonly signalParent: (signal: string) => string;
  readonly ignoreTerm: string;
  /** On SIGTERM it prints and ends well; until then it hangs. */
  readonly printOnTerm: (text: string) => string;
  readonly closeStdin: string;
  readonly closeStdout: string;
  /** Children that outlive it; their pids are in `pids` for `answerPids`. */
  readonly children: (count: number, how: 'in-group' | 'own-session' | 'silent-daemon') => string;
  /** Responds with success; the result contains the pids of its children. */
  readonly answerPids: string;
  /** More memory than any machine has. */
  readonly takeMemory: string;
  /** Writes so many small files to its directory. */
  readonly litter: (files: number) => string;
  /** Responds with its environment and its descriptors. */
  readonly tellSetting: string;
}

function hexOf(text: string | Buffer): string {
  return Buffer.from(text).toString('hex');
}

const sh: Deeds = {
  head: '#!/bin/sh\npids=""',
  read: 'cat > /dev/null',
  print: (text) => `printf '${hexOf(text).replaceAll(/../g, (byte) => toOctal(byte))}'`,
  flood: (descriptor, bytes) => `head -c ${bytes} /dev/zero >&${descriptor}`,
  pause: (seconds) => `sleep ${seconds}`,
  hang: 'exec sleep 60',
  spin: 'while :; do :; done',
  exit: (code) => `exit ${code}`,
  signalSelf: (signal) => `kill -${signal.slice('SIG'.length)} $$`,
  signalParent: (signal) => `kill -${signal.slice('SIG'.length)} $PPID`,
  ignoreTerm: "trap '' TERM",
  printOnTerm: (text) =>
    `trap "${sh.print(text).replaceAll('\\', '\\\\')}; exit 0" TERM; while :; do sleep 0.05; done`,
  closeStdin: 'exec 0<&-',
  closeStdout: 'exec 1>&-',
  children: (count, how) => {
    const start = how === 'in-group' ? 'sleep 60' : 'setsid sleep 60';
    const silent = how === 'silent-daemon' ? ' <&- >&- 2>&-' : '';
    return `for one in $(seq ${count}); do ${start}${silent} & pids="$pids $!"; done`;
  },
  answerPids: `printf '{"status":"ok","result":"pids%s"}' "$pids"`,
  takeMemory: 'ulimit -v 1000000; dd if=/dev/zero of=/dev/null bs=8G count=1; exit 1',
  litter: (files) => `for one in $(seq ${files}); do : > "litter-$one"; done`,
  tellSetting: [
    `printf '{"status":"ok","result":"fds '`,
    `ls /proc/self/fd | tr '\\n' ' '; env | tr '"\\n' '  '`,
    `printf '"}'`,
  ].join('\n'),
};

function toOctal(byte: string): string {
  return `\\${Number.parseInt(byte, 16).toString(8).padStart(3, '0')}`;
}

const python: Deeds = {
  head: `#!${findPython()} -IS\nimport json, os, signal, subprocess, sys, time\npids = []`,
  read: 'sys.stdin.buffer.read()',
  print: (text) => `os.write(1, bytes.fromhex("${hexOf(text)}"))`,
  flood: (descriptor, bytes) =>
    `for _ in range(${Math.ceil(bytes / 65_536)}): os.write(${descriptor}, bytes(65536))`,
  pause: (seconds) => `time.sleep(${seconds})`,
  hang: 'time.sleep(60)',
  spin: 'while True: pass',
  exit: (code) => `os._exit(${code})`,
  signalSelf: (signal) => `os.kill(os.getpid(), signal.${signal}); time.sleep(60)`,
  signalParent: (signal) => `os.kill(os.getppid(), signal.${signal}); time.sleep(60)`,
  ignoreTerm: 'signal.signal(signal.SIGTERM, signal.SIG_IGN)',
  printOnTerm: (text) =>
    `signal.signal(signal.SIGTERM, lambda *_: (${python.print(text)}, os._exit(0)))\ntime.sleep(60)`,
  closeStdin: 'os.close(0)',
  closeStdout: 'os.close(1)',
  children: (count, how) => {
    const silent =
      ', stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL';
    const more =
      (how === 'in-group' ? '' : ', start_new_session=True') +
      (how === 'silent-daemon' ? silent : '');
    return `for _ in range(${count}): pids.append(subprocess.Popen(["sleep", "60"]${more}).pid)`;
  },
  answerPids: 'print(json.dumps({"status": "ok", "result": " ".join(["pids", *map(str, pids)])}))',
  takeMemory: 'bytearray(10 ** 15)',
  litter: (files) => `for n in range(${files}): open(f"litter-{n}", "w").close()`,
  tellSetting: [
    'open_ones = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")]',
    'print(json.dumps({"status": "ok", "result": f"fds 0 1 2 {open_ones} {dict(os.environ)}"}))',
  ].join('\n'),
};

function findPython(): string {
  return execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  }).trim();
}

const node: Deeds = {
  head: `#!${process.execPath}\nconst fs = require('fs'), {spawn} = require('child_process'); const pids = [];`,
  read: 'fs.readFileSync(0);',
  print: (text) => `fs.writeSync(1, Buffer.from('${hexOf(text)}', 'hex'));`,
  flood: (descriptor, bytes) =>
    `for (let left = ${bytes}; left > 0;)
  try { left -= fs.writeSync(${descriptor}, Buffer.alloc(65536)); }
  catch (error) { if (error.code !== 'EAGAIN') throw error; }`,
  pause: (seconds) =>
    `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${seconds * 1000});`,
  hang: 'setInterval(() => {}, 60000);',
  spin: 'for (;;) {}',
  exit: (code) => `process.reallyExit(${code});`,
  signalSelf: (signal) => `process.kill(process.pid, '${signal}'); setInterval(() => {}, 60000);`,
  signalParent: (signal) =>
    `process.kill(process.ppid, '${signal}'); setInterval(() => {}, 60000);`,
  ignoreTerm: "process.on('SIGTERM', () => {});",
  printOnTerm: (text) =>
    `process.on('SIGTERM', () => { ${node.print(text)} process.reallyExit(0); }); setInterval(() => {}, 60000);`,
  closeStdin: 'fs.closeSync(0);',
  closeStdout: 'fs.closeSync(1);',
  children: (count, how) => {
    const detached = how === 'in-group' ? 'false' : 'true';
    const stdio = how === 'silent-daemon' ? 'ignore' : 'inherit';
    return `for (let n = 0; n < ${count}; n += 1) {
  const child = spawn('sleep', ['60'], {detached: ${detached}, stdio: '${stdio}'});
  child.unref();
  pids.push(child.pid);
}`;
  },
  answerPids: `fs.writeSync(1, JSON.stringify({status: 'ok', result: ['pids', ...pids].join(' ')}));
process.reallyExit(0);`,
  takeMemory: 'Buffer.alloc(2 ** 50);',
  litter: (files) => `for (let n = 0; n < ${files}; n += 1) fs.writeFileSync('litter-' + n, '');`,
  tellSetting: `fs.writeSync(1, JSON.stringify({status: 'ok', result: 'fds 0 1 2 ' + JSON.stringify(process.env)}));`,
};

export const deeds: Readonly<Record<Language, Deeds>> = { sh, python, node };

/** A whole program of these statements. */
export function programOf(
  language: Language,
  statements: (deeds: Deeds) => readonly string[],
): string {
  return [deeds[language].head, ...statements(deeds[language]), ''].join('\n');
}
