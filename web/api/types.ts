/** What the operations take and answer. Only types come from the server's sources, never code. */
import type { TypedOperation } from '../../src/operations/define.ts';
import type * as analytics from '../../src/operations/analytics.ts';
import type * as breaker from '../../src/operations/breaker.ts';
import type * as directiveDecide from '../../src/operations/directive-decide.ts';
import type * as directive from '../../src/operations/directive.ts';
import type * as discovery from '../../src/operations/discovery.ts';
import type * as health from '../../src/operations/health.ts';
import type * as incident from '../../src/operations/incident.ts';
import type * as doctor from '../../src/operations/doctor.ts';
import type * as events from '../../src/operations/events.ts';
import type * as installation from '../../src/operations/installation.ts';
import type * as jobControl from '../../src/operations/job-control.ts';
import type * as job from '../../src/operations/job.ts';
import type * as packageChange from '../../src/operations/package-change.ts';
import type * as packages from '../../src/operations/package.ts';
import type * as pipelineRun from '../../src/operations/pipeline-run.ts';
import type * as pipeline from '../../src/operations/pipeline.ts';
import type * as pluginSwitch from '../../src/operations/plugin-switch.ts';
import type * as plugin from '../../src/operations/plugin.ts';
import type * as reload from '../../src/operations/reload.ts';
import type * as runControl from '../../src/operations/run-control.ts';
import type * as runList from '../../src/operations/run-list.ts';
import type * as run from '../../src/operations/run.ts';
import type * as schedule from '../../src/operations/schedule.ts';
import type * as signalEmit from '../../src/operations/signal-emit.ts';
import type * as signalReplay from '../../src/operations/signal-replay.ts';
import type * as signal from '../../src/operations/signal.ts';
import type * as system from '../../src/operations/system.ts';
import type * as tenant from '../../src/operations/tenant.ts';
import type * as tree from '../../src/operations/tree.ts';
import type * as why from '../../src/operations/why/operation.ts';
import type * as webhookDelivery from '../../src/operations/webhook-delivery.ts';
import type * as webhookEndpoint from '../../src/operations/webhook-endpoint.ts';
import type * as webhookTest from '../../src/operations/webhook-test.ts';
import type * as webhook from '../../src/operations/webhook.ts';

/** By name, the operations that a module exports. */
type Calls<Module> = {
  [
    Key in keyof Module as Module[Key] extends TypedOperation<infer Own, unknown, unknown>
      ? string extends Own
        ? never
        : Own
      : never
  ]: Module[Key] extends TypedOperation<string, infer Taken, infer Answer>
    ? { input: Taken; output: Answer }
    : never;
};

export type Api = Calls<typeof analytics> &
  Calls<typeof breaker> &
  Calls<typeof directive> &
  Calls<typeof directiveDecide> &
  Calls<typeof discovery> &
  Calls<typeof doctor> &
  Calls<typeof events> &
  Calls<typeof health> &
  Calls<typeof incident> &
  Calls<typeof installation> &
  Calls<typeof job> &
  Calls<typeof jobControl> &
  Calls<typeof packageChange> &
  Calls<typeof packages> &
  Calls<typeof pipeline> &
  Calls<typeof pipelineRun> &
  Calls<typeof plugin> &
  Calls<typeof pluginSwitch> &
  Calls<typeof reload> &
  Calls<typeof run> &
  Calls<typeof runControl> &
  Calls<typeof runList> &
  Calls<typeof schedule> &
  Calls<typeof signal> &
  Calls<typeof signalEmit> &
  Calls<typeof signalReplay> &
  Calls<typeof system> &
  Calls<typeof tenant> &
  Calls<typeof tree> &
  Calls<typeof webhook> &
  Calls<typeof webhookDelivery> &
  Calls<typeof webhookEndpoint> &
  Calls<typeof webhookTest> &
  Calls<typeof why>;

export type Name = Extract<keyof Api, string>;
export type Input<N extends Name> = Api[N]['input'];
export type Output<N extends Name> = Api[N]['output'];

type ListedJob = Output<'job.list'>['jobs'][number];
/** A job of any list; only some lists say whether it was retried. */
export type Job = Omit<ListedJob, 'retried_as'> & Partial<Pick<ListedJob, 'retried_as'>>;
export type JobStory = Output<'job.inspect'>;
export type Attempt = JobStory['attempts'][number];
export type Run = Output<'run.list'>['runs'][number];
export type RunStory = Output<'run.show'>;
export type Step = RunStory['steps'][number];
export type Signal = Output<'signal.list'>['signals'][number];
export type Event = Output<'signal.tail'>['events'][number];
export type Schedule = Output<'schedule.list'>['schedules'][number];
export type Finding = Output<'system.doctor'>['findings'][number];
export type Incident = Output<'incident.list'>['incidents'][number];
export type Tenant = Output<'tenant.list'>['tenants'][number];
export type Coming = Output<'schedule.preview'>['times'][number];
export type Directive = Output<'directive.list'>['directives'][number];
