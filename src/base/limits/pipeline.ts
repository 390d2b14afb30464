import { KIB, MIB, MINUTE, SECOND } from '../quantity.ts';

/** Limits of pipelines, their runs and branches. */
export const pipelineLimits = {
  /** All outputs of a block that is the last step, so that no step gets them as its payload. */
  runOutputBytesMax: 16 * MIB,
  /** The steps that a test of a pipeline simulates. */
  simulationStepsMax: 1000,
  /** The characters of the payloads that a test of a pipeline shows. */
  simulationCharsMax: 4 * MIB,
  /** The branches that one process advances at once. */
  advancedAtOnceMax: 8,
  /** The delay before branches are advanced again without a database. */
  advanceRetryMs: 1 * SECOND,
  /** The cached payloads from before a block, which the jobs of its branches need. */
  basePayloadsMax: 32,
  /** The depth to which a chain of jobs is followed in both directions. */
  treeDepthMax: 100,
  /** A step’s name in a request. */
  stepNameCharsMax: 1000,
  /** The reason of an approval or a rejection. */
  decisionReasonCharsMax: 1000,
  /** The rows that one statement copies or changes. The process yields between statements. */
  runRowsAtOnce: 500,
  /** The pipelines of one configuration. */
  pipelinesMax: 1000,
  /** The steps of one pipeline with all calls inlined. */
  pipelineNodesMax: 2000,
  /** The depth of a pipeline’s nested lists. */
  pipelineDepthMax: 32,
  /** The parts of a condition. */
  conditionPartsMax: 100,
  /** The nesting of a condition. */
  conditionDepthMax: 16,
  /** The length of an expression. */
  expressionCharsMax: 4 * KIB,
  /** The time of one evaluation of an expression. */
  expressionMs: 100,
  /** The branches of one block by default. Setting: `pipelines[].max_fanout`. */
  fanoutDefault: 10_000,
  /** The highest value of `max_fanout`. */
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
  /** The attempts to advance a branch before it halts. */
  advancementAttemptsMax: 5,
  /** The first delay between two attempts to advance a branch. */
  advancementBackoffMs: 1 * SECOND,
  /** The halted branches that the signal of a halted run names. */
  haltedBranchesMax: 100,
  /** The signals of one type that a waiting branch checks in one search. */
  signalSearchMax: 200,
  /** The delay before a new wait searches a second time. It is longer than the commit of a signal. */
  signalSearchAgainMs: 2 * SECOND,
  /** The time that a synchronous caller waits for a pipeline. Setting: `pipelines[].timeout`. */
  pipelineTimeoutMs: 30 * SECOND,
  /** The earlier jobs of a revived step that are followed to find the event that caused it. */
  revivalsFollowedMax: 50,
  /** All baggage of a run as JSON text. */
  baggageBytesMax: 1 * MIB,
} as const;
