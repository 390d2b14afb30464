/**
 * A plugin that keeps its own record of what was done, outside of the engine's reach: a line when
 * it starts and one when its work is done, each on the disk before it goes on or answers.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { python } from '../../support/plugin-program.ts';

/** What a payload may ask for besides being recorded. */
export interface Wish {
  readonly sleep_ms?: number;
  /** Every attempt with a smaller number fails. */
  readonly fail_before?: number;
  /** Every attempt with a smaller number never ends by itself. */
  readonly hang_before?: number;
  readonly padding?: string;
  /** Its dependency key. */
  readonly key?: string;
  /** The dedupe key of the event that it emits, or of the run. */
  readonly dedupe?: string;
  /** It is a run of the pipeline, with so many elements. */
  readonly items?: number;
}

/** A line of the record. */
export interface RecordLine {
  readonly job_id: string;
  readonly plugin: string;
  readonly attempt: number;
  readonly idempotency_key: string;
  readonly phase: 'start' | 'end';
  /** When, in milliseconds since 1970. */
  readonly at: number;
  readonly pid: number;
  /** When the process was born, in the kernel's ticks: pids come back, this does not. */
  readonly born: string;
  /** Processes of earlier attempts at the same job, or of its key, that lived when this one started. */
  readonly survivors: readonly number[];
}

export const doneEvent = 'recorder.done';

export const recorder = python(`
config, me = request["config"], os.getpid()

def born(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]

key = payload.get("key")

def survivors():
    if (attempt == 1 and key is None) or not os.path.exists(config["file"]):
        return []
    wanted = [request["job_id"]] if key is None else [request["job_id"], json.dumps({"key": key})[1:-1]]
    with open(config["file"]) as file:
        mine = [json.loads(line) for line in file if any(word in line for word in wanted)]
    return [line["pid"] for line in mine if line["phase"] == "start" and born(line["pid"]) == line["born"]]

def record(phase, alive=()):
    line = json.dumps({
        "job_id": request["job_id"],
        "plugin": request["instance"],
        "attempt": attempt,
        "idempotency_key": request["idempotency_key"],
        "phase": phase,
        "at": round(time.time() * 1000),
        "pid": me,
        "born": born(me),
        "survivors": alive,
        **({} if key is None else {"key": key}),
    })
    file = os.open(config["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, (line + "\\n").encode())
    os.fsync(file)
    os.close(file)

record("start", survivors())
while attempt < payload.get("hang_before", 0):
    time.sleep(60)
if attempt < payload.get("fail_before", 0):
    fail("as it was asked to")
time.sleep(payload.get("sleep_ms", 0) / 1000)
record("end")
done = {"type": "${doneEvent}", "payload": {"ref": payload["ref"]}} if config["emits"] else None
if done and "dedupe" in payload:
    done["dedupe_key"] = payload["dedupe"]
ok(events=[done] if done else [])
`);

export async function readRecord(path: string): Promise<RecordLine[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RecordLine);
}

/** Whether the very process that wrote the line still lives. */
export function isRunning({ pid, born }: RecordLine): boolean {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return !'ZX'.includes(state) && rest[18] === born;
  } catch {
    return false;
  }
}
