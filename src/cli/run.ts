import type { CliHost, CliIo } from './host.ts';
import { version } from './version.ts';

/** Runs a command line and returns its exit code. Heavy parts are loaded on demand. */
export async function runCli(argv: readonly string[], host: CliHost, io: CliIo): Promise<number> {
  if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-V')) {
    io.stdout.write(`${version}\n`);
    return 0;
  }
  if (argv[0] === '__complete') {
    const { runComplete } = await import('./complete.ts');
    const code = await runComplete(argv.slice(1), host, io);
    // A shell waits for the end, so don't wait for a service that hasn't responded.
    io.exit(code);
    return code;
  }
  const { runProgram } = await import('./program.ts');
  return runProgram(argv, host, io);
}
