import { cliHost } from './app/cli-host.ts';
import { processIo } from './cli/host.ts';
import { runCli } from './cli/run.ts';

void runCli(process.argv.slice(2), cliHost, processIo()).then((code) => {
  process.exitCode = code;
});
