/** Inputs and outputs of the operations. Only types come from the service's sources, never code. */
import type { TypedOperation } from '../../src/operation/define.ts';
import type * as analytics from '../../src/insight/analytics.operations.ts';
import type * as breaker from '../../src/schedule/breaker.operations.ts';
import type * as directive from '../../src/directive/operations.ts';
import type * as discovery from '../../src/plugin/discovery.operations.ts';
import type * as health from '../../src/plugin/health.operations.ts';
import type * as incident from '../../src/insight/incident.operations.ts';
import type * as incidentChange from '../../src/insight/incident.directives.ts';
import type * as doctor from '../../src/insight/doctor.operations.ts';
import type * as events from '../../src/signal/event-feed.operations.ts';
import type * as packages from '../../src/package/operations.ts';
import type * as jobBulk from '../../src/job/bulk.operations.ts';
import type * as jobChange from '../../src/job/job.directives.ts';
import type * as systemChange from '../../src/engine/system.directives.ts';
import type * as pluginChange from '../../src/plugin/plugin.directives.ts';
import type * as job from '../../src/job/operations.ts';
import type * as packageInstall from '../../src/package/install.directives.ts';
import type * as packageSwitch from '../../src/package/switch.directives.ts';
import type * as pipelineRun from '../../src/pipeline/run/start.operations.ts';
import type * as pipeline from '../../src/pipeline/operations.ts';
import type * as plugin from '../../src/plugin/operations.ts';
import type * as runChange from '../../src/pipeline/run/run.directives.ts';
import type * as runDecision from '../../src/pipeline/run/decide.directives.ts';
import type * as runList from '../../src/pipeline/run/run.operations.ts';
import type * as run from '../../src/job/start.operations.ts';
import type * as schedule from '../../src/schedule/operations.ts';
import type * as scheduleChange from '../../src/schedule/schedule.directives.ts';
import type * as signalEmit from '../../src/signal/emit.operations.ts';
import type * as signalReplay from '../../src/signal/replay.directives.ts';
import type * as signal from '../../src/signal/operations.ts';
import type * as system from '../../src/engine/system.operations.ts';
import type * as tenant from '../../src/tenant/operations.ts';
import type * as tenantChange from '../../src/tenant/tenant.directives.ts';
import type * as tree from '../../src/job/tree.operations.ts';
import type * as why from '../../src/insight/why/why.operations.ts';
import type * as webhookDelivery from '../../src/webhook/delivery.operations.ts';
import type * as webhook from '../../src/webhook/operations.ts';
import type * as webhookChange from '../../src/webhook/webhook.directives.ts';
import type * as webhookUpdate from '../../src/webhook/update.directives.ts';
import type * as webhookRotation from '../../src/webhook/rotate.directives.ts';
import type * as deliveryChange from '../../src/webhook/delivery.directives.ts';

/** The operation of a directive, or the operation itself. */
type OperationOf<Export> = Export extends { readonly operation: infer Own } ? Own : Export;

/** Operations that a module exports, by name. */
type Calls<Module> = {
  [
    Key in keyof Module as OperationOf<Module[Key]> extends TypedOperation<
      infer Own,
      unknown,
      unknown
    >
      ? string extends Own
        ? never
        : Own
      : never
  ]: OperationOf<Module[Key]> extends TypedOperation<string, infer Accepted, infer Returned>
    ? { input: Accepted; output: Returned }
    : never;
};

export type Api = Calls<typeof analytics> &
  Calls<typeof breaker> &
  Calls<typeof directive> &
  Calls<typeof discovery> &
  Calls<typeof doctor> &
  Calls<typeof events> &
  Calls<typeof health> &
  Calls<typeof incident> &
  Calls<typeof incidentChange> &
  Calls<typeof job> &
  Calls<typeof jobBulk> &
  Calls<typeof jobChange> &
  Calls<typeof systemChange> &
  Calls<typeof pluginChange> &
  Calls<typeof packageInstall> &
  Calls<typeof packageSwitch> &
  Calls<typeof packages> &
  Calls<typeof pipeline> &
  Calls<typeof pipelineRun> &
  Calls<typeof plugin> &
  Calls<typeof run> &
  Calls<typeof runChange> &
  Calls<typeof runDecision> &
  Calls<typeof runList> &
  Calls<typeof schedule> &
  Calls<typeof scheduleChange> &
  Calls<typeof signal> &
  Calls<typeof signalEmit> &
  Calls<typeof signalReplay> &
  Calls<typeof system> &
  Calls<typeof tenant> &
  Calls<typeof tenantChange> &
  Calls<typeof tree> &
  Calls<typeof webhookChange> &
  Calls<typeof webhookUpdate> &
  Calls<typeof webhookRotation> &
  Calls<typeof deliveryChange> &
  Calls<typeof webhookDelivery> &
  Calls<typeof webhook> &
  Calls<typeof why>;

export type Name = Extract<keyof Api, string>;
export type Input<N extends Name> = Api[N]['input'];
export type Output<N extends Name> = Api[N]['output'];

type ListedJob = Output<'job.list'>['jobs'][number];
/** Job of any list; only some lists contain `retried_as`. */
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
