import { cliHost } from './app/cli-host.ts';
import { processIo } from './cli/host.ts';
import { runCli } from './cli/run.ts';

process.exitCode = await runCli(process.argv.slice(2), cliHost, processIo());
