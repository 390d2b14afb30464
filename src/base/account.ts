import { homedir, userInfo } from 'node:os';

/**
 * The name of the user that runs this process. A user id without an entry in the passwd database,
 * as containers and systemd's dynamic users have, is named by its number.
 */
export function readUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** HOME, else the entry in the passwd database. Without both it is `/`, as container runtimes do. */
export function readHomeDirectory(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}
