import { catalogue, type ErrorKind } from './error-catalogue.ts';
import { joinLines } from './text.ts';

export type ErrorCode = keyof typeof catalogue;

interface DuctileErrorOptions {
  /** The location of the fault: a file with a line, a key, an id. */
  readonly place?: string | undefined;
  /** A remedy that is more exact than the catalogue's hint. */
  readonly hint?: string | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly cause?: unknown;
}

export class DuctileError extends Error {
  override readonly name = 'DuctileError';
  readonly code: ErrorCode;
  readonly place: string | undefined;
  readonly hint: string;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: DuctileErrorOptions = {}) {
    super(joinLines(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.place = options.place;
    this.hint = options.hint ?? catalogue[code].hint;
    this.details = options.details;
  }

  get kind(): ErrorKind {
    return catalogue[this.code];
  }

  /** Path of the page about this code, on the service's address. */
  get docs(): string {
    return `/docs/reference/errors#${this.code.toLowerCase()}`;
  }

  toJSON(): Record<string, unknown> {
    return {
      error: this.message,
      code: this.code,
      ...(this.place === undefined ? {} : { place: this.place }),
      hint: this.hint,
      retryable: this.kind.retryable,
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

/** Converts a thrown value to an error of the catalogue. */
export function toDuctileError(thrown: unknown): DuctileError {
  if (thrown instanceof DuctileError || isTwin(thrown)) return thrown;
  return new DuctileError('INTERNAL', messageOf(thrown), { cause: thrown });
}

/** Recognizes errors of other bundles: the program is built into several files, each with its own class. */
function isTwin(thrown: unknown): thrown is DuctileError {
  return thrown instanceof Error && thrown.name === 'DuctileError' && 'kind' in thrown;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
