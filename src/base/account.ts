import { homedir, userInfo } from 'node:os';

/**
 * Reads the name of the user that runs this process. Containers and systemd's dynamic users have user
 * ids without an entry in the passwd database; for those it returns the number.
 */
export function readUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Reads HOME, else the entry in the passwd database, else `/`, as container runtimes do. */
export function readHomeDirectory(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}
