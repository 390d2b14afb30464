/** A notify socket like that of systemd. */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { makeDirectory } from './directory.ts';

export const hasNotifyProgram = spawnSync('systemd-notify', ['--version']).error === undefined;

/** Prints received datagrams, which Node can't receive itself. */
const program = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("bound", flush=True)
while True: print(s.recv(4096).decode().replace("\\n", " "), flush=True)`;

export interface NotifySocket {
  readonly path: string;
  /** Received messages in order; a message may contain several assignments. */
  readonly messages: readonly string[];
}

export async function openNotifySocket(): Promise<NotifySocket> {
  const path = join(await makeDirectory(), 'notify');
  const child = spawn('python3', ['-c', program, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill());
  const messages: string[] = [];
  await new Promise<void>((resolve) => {
    createInterface(child.stdout).on('line', (line) => {
      if (line === 'bound') resolve();
      else messages.push(line);
    });
  });
  return { path, messages };
}
