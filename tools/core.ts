/**
 * Files in which a wrong branch loses work or does it twice, with the percentage of branches that
 * the tests must take.
 */
export const core: Readonly<Record<string, number>> = {
  'src/{directive/{approval,directive,type},access/{roles,token-origin},**/*-directives}.ts': 62,
  'src/job/{attempt,job,outcome}.ts': 100,
  'src/package/{checksum,fill,manifest,package,provision,version}.ts': 79,
  'src/pipeline/{language/*,route,run/{advance,begin-block,enter,run,transition,wait,walk}}.ts': 91,
  'src/base/hash.ts': 94,
  'src/schedule/{breaker,cron,entry,parse-result,plan,preview,schedule,window,zone}.ts': 94,
  'src/signal/{cloudevent,envelope,mask,signal}.ts': 92,
  'src/webhook/{verify/*,agent-outcome,auth-settings,body,check,confusables,defaults,delivery-id}.ts': 94,
  'src/webhook/{event-fields,event-type,form,media,packaged,payload,prompt-boundary,rate-limit}.ts': 94,
  'src/webhook/{request,target,template,webhook}.ts': 94,
  'src/job/{executor,dispatcher,heartbeat,reaper,settle}.service.ts': 72,
  'src/pipeline/run/advancer.service.ts': 72,
  'src/ledger/*-verbs.ts': 93,
};

/** Is in the environment of the tests whose steps are counted. */
export const COUNTING = 'DUCTILE_COUNTS_BRANCHES';
