/**
 * Where a branch begins that may go on with what came before it waited: at the start of its run. It is
 * no number of a signal, and greater than all, so that a program which does not know it finds nothing.
 */
export const FROM_THE_START = Number.MAX_SAFE_INTEGER;

/** The same once more. */
export const FROM_THE_START_AGAIN = FROM_THE_START - 1;
