import { KIB, MIB, MINUTE, SECOND } from './units.ts';

/** Pipelines, their runs and branches. */
export const pipelineLimits = {
  /** All outputs of one block, where no step follows that would have to take them. */
  runOutputBytesMax: 16 * MIB,
  /** Steps that the test of a pipeline plays, and characters of their payloads that it tells of. */
  simulationStepsMax: 1000,
  simulationCharsMax: 4 * MIB,
  /** Branches that one process moves on at once, and until it tries again when the database is away. */
  advancedAtOnceMax: 8,
  advanceRetryMs: 1 * SECOND,
  /** Payloads from before a block that are kept for the jobs of its branches. */
  basesMax: 32,
  /** How far a chain of jobs is followed up and down. */
  treeDepthMax: 100,
  /** A step's name as a caller gives it, and why somebody approved or rejected. */
  stepNameCharsMax: 1000,
  whyCharsMax: 1000,
  /** Rows that are copied or cancelled by one statement, so that others have their turn between. */
  runRowsAtOnce: 500,
  /** Pipelines: how many, how long one is once it is laid flat, and how deep its steps may be nested. */
  pipelinesMax: 1000,
  pipelineNodesMax: 2000,
  pipelineDepthMax: 32,
  /** One condition: its parts, how deep they are nested, and an expression's length and time. */
  conditionPartsMax: 100,
  conditionDepthMax: 16,
  expressionCharsMax: 4 * KIB,
  expressionMs: 100,
  /** How many branches one block may have unless its pipeline says otherwise, and at all. */
  fanoutUsual: 10_000,
  fanoutMax: 1_000_000,
  /** Branches of one block that are begun where its branch arrives; more are left to an advancer. */
  inlineFanoutMax: 100,
  /** Branches that an advancer begins in one transaction, and outputs that it reads at once: so many
   * that others have their turn after a few milliseconds. */
  advanceBatchMax: 100,
  /** Branches of a cancelled run that are ended in one transaction. */
  sweepBatchMax: 250,
  /** The largest payload that a branch with an open wide block keeps in its own row. */
  branchPayloadBytesMax: 4 * KIB,
  /** How long a branch may be claimed without being moved before others take it. */
  branchLeaseMs: 5 * MINUTE,
  /** Tries at moving one branch on that may fail, and what their delay grows from. */
  advancementTriesMax: 5,
  advancementBackoffMs: 1 * SECOND,
  /** Halted branches that the signal of a halted run names. */
  haltsToldMax: 100,
  /** Signals of one type that one look of a waiting branch considers. */
  signalLookMax: 200,
  /** Until a branch that begins to wait looks for signals a second time: longer than their commits take. */
  signalLookAgainMs: 2 * SECOND,
  /** How long a synchronous caller waits for a pipeline that does not say. */
  pipelineTimeoutMs: 30 * SECOND,
  /** Earlier jobs of a revived step that are followed to find the event that caused it. */
  revivalsFollowedMax: 50,
  /** All baggage of a chain as JSON text. */
  baggageBytesMax: 1 * MIB,
} as const;
