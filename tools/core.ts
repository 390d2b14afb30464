const webhookFiles =
  'agent-outcome,auth-settings,check,event-type,prompt,rate-limit,request,target,webhook';

/**
 * Files in which a wrong branch loses work or does it twice, with the percentage of branches that
 * the tests must take.
 */
export const core: Readonly<Record<string, number>> = {
  'src/{directive/{approval,directive},base/roles,job/bulk,signal/replay}.ts': 62,
  'src/job/{attempt,job,outcome}.ts': 100,
  'src/package/{package,provision,version}.ts': 79,
  'src/pipeline/{language/*,run/{advance,halt,run,walk}}.ts': 91,
  'src/schedule/{breaker,cron,entry,plan,schedule,window,zone}.ts': 94,
  'src/signal/{cloudevent,envelope,mask,signal}.ts': 92,
  [`src/webhook/{verify/*,${webhookFiles}}.ts`]: 94,
  'src/{job/{executor,dispatcher,heartbeat,reaper,settle},pipeline/run/advancer}.service.ts': 97,
  'src/ledger/{nouns,verbs}.ts': 93,
};

/** Environment variable of the tests whose branches are counted. */
export const COUNTING = 'DUCTILE_COUNTS_BRANCHES';
