import { KIB, MIB, MINUTE, SECOND } from '../quantity.ts';

/** Limits of pipelines, their runs and branches. */
export const pipelineLimits = {
  /** All outputs of a block that is the last step, so that no step gets them as its payload. */
  runOutputBytesMax: 16 * MIB,
  /** The steps that a test of a pipeline simulates, and the characters of the payloads that it shows. */
  simulationStepsMax: 1000,
  simulationCharsMax: 4 * MIB,
  /** The branches that one process advances at once, and its retry delay without a database. */
  advancedAtOnceMax: 8,
  advanceRetryMs: 1 * SECOND,
  /** The cached payloads from before a block, which the jobs of its branches need. */
  basePayloadsMax: 32,
  /** The depth to which a chain of jobs is followed in both directions. */
  treeDepthMax: 100,
  /** A step's name in a request, and the reason of an approval or a rejection. */
  stepNameCharsMax: 1000,
  decisionReasonCharsMax: 1000,
  /** The rows that one statement copies or changes. The process yields between statements. */
  runRowsAtOnce: 500,
  /** The number of pipelines, the steps of one with all calls inlined, and the depth of its lists. */
  pipelinesMax: 1000,
  pipelineNodesMax: 2000,
  pipelineDepthMax: 32,
  /** A condition: its parts, their depth, and the length and time of an expression. */
  conditionPartsMax: 100,
  conditionDepthMax: 16,
  expressionCharsMax: 4 * KIB,
  expressionMs: 100,
  /** The branches of one block: the default of a pipeline's limit, and the highest limit. */
  fanoutDefault: 10_000,
  fanoutMax: 1_000_000,
  /** The branches that a block starts in the transaction that opens it. An advancer starts more. */
  inlineFanoutMax: 100,
  /**
   * The branches that an advancer starts in one transaction, and the outputs that it reads at once. A
   * batch takes a few milliseconds, so that it doesn't delay others.
   */
  advanceBatchMax: 100,
  /** The branches of a cancelled run that end in one transaction. */
  cancelBatchMax: 250,
  /** The largest payload in the row of a branch with an open wide block. */
  branchPayloadBytesMax: 4 * KIB,
  /** The time after which other processes can claim a claimed branch that was not advanced. */
  branchLeaseMs: 5 * MINUTE,
  /** The tries to advance a branch, and the first delay between them. */
  advancementAttemptsMax: 5,
  advancementBackoffMs: 1 * SECOND,
  /** The halted branches that the signal of a halted run names. */
  haltedBranchesMax: 100,
  /** The signals of one type that a waiting branch checks in one search. */
  signalSearchMax: 200,
  /** The delay before a new wait searches a second time. It is longer than the commit of a signal. */
  signalSearchAgainMs: 2 * SECOND,
  /** The default time that a synchronous caller waits for a pipeline. */
  pipelineTimeoutMs: 30 * SECOND,
  /** The earlier jobs of a revived step that are followed to find the event that caused it. */
  revivalsFollowedMax: 50,
  /** All baggage of a run as JSON text. */
  baggageBytesMax: 1 * MIB,
} as const;
