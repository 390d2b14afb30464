import { closeSync, readdirSync, readFileSync } from 'node:fs';

const CLOSE_ON_EXEC = 0o2000000;
const STDERR = 2;

/**
 * Closes what the engine inherited from its own parent, so that it does not reach a plugin. Node
 * opens everything close-on-exec, so what is not is not Node's. Only Linux tells which those are.
 */
export function closeInherited(): void {
  if (process.platform !== 'linux') return;
  for (const fd of readdirSync('/proc/self/fd').map(Number)) {
    if (fd > STDERR && isPassedOn(fd)) closeSync(fd);
  }
}

/** False also for the descriptor by which the directory was read: it is closed by now. */
function isPassedOn(fd: number): boolean {
  let text: string;
  try {
    text = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8');
  } catch {
    return false;
  }
  const flags = /^flags:\s+([0-7]+)$/m.exec(text)?.[1];
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
}
