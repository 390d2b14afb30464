import { version } from './version.ts';

/** For somebody who typed the name alone. */
export const welcome = `ductile ${version}: an automation runtime for unattended work

New here?
  ductile demo             a small automation at work, in a directory that is removed again
  ductile init             a configuration of your own, in ~/.config/ductile
  ductile plugin list      what there is to run
  ductile plugin run echo  run it, and wait for the answer
  ductile system start     the service, in the foreground

Something runs already?
  ductile doctor           what is wrong, and the command that resolves it
  ductile status           how it is
  ductile job list         what it did
  ductile logs --follow    what it does
  ductile mcp              all of it as tools, for an AI agent

All commands: ductile --help. Each explains itself: ductile job --help
`;
