import type { Directive } from '../../directive/directive.ts';
import type { LiveFinding } from '../finding.ts';
import type { Job } from '../../job/job.ts';
import type { Incident } from '../types.ts';
import type { ScheduleRow } from '../../schedule/types.ts';
import type { DeliveryRow, WebhookRow } from '../../webhook/types.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { Signal } from '../../signal/signal.ts';

/** What was found under a name. */
export type Found =
  | { readonly kind: 'job'; readonly job: Job }
  | { readonly kind: 'run'; readonly run: Run }
  | { readonly kind: 'schedule'; readonly row: ScheduleRow }
  | { readonly kind: 'webhook'; readonly row: WebhookRow }
  | { readonly kind: 'signal'; readonly signal: Signal }
  | { readonly kind: 'directive'; readonly directive: Directive }
  | { readonly kind: 'delivery'; readonly delivery: DeliveryRow }
  | { readonly kind: 'incident'; readonly incident: Incident }
  | { readonly kind: 'finding'; readonly finding: LiveFinding }
  | { readonly kind: 'plugin'; readonly name: string }
  | { readonly kind: 'pipeline'; readonly name: string };
