/** Programs of test plugins. The test's notes and gates are beside every plugin. */
import { execFileSync } from 'node:child_process';

let interpreter: string | undefined;

/** The real path of python3: the shim of a version manager takes longer than the plugins. */
function findPython(): string {
  interpreter ??= execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  }).trim();
  return interpreter;
}

const tools = `
import json, os, signal, sys, time

def note(*words):
    """One line that the test can read, written at once even beside other processes."""
    file = os.open("../../notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, (" ".join(str(word) for word in words) + "\\n").encode())
    os.close(file)

def wait_for(gate):
    while not os.path.exists("../../gate-" + gate):
        time.sleep(0.005)

def answer(**response):
    print(json.dumps(response))
    sys.exit(0)

def ok(result="done", **more):
    answer(status="ok", result=result, **more)

def fail(error="broken", **more):
    answer(status="error", error=error, **more)
`;

const readRequest = `
request = json.load(sys.stdin)
payload, command, attempt = request["payload"], request["command"], request["attempt"]
`;

/** Creates a Python program; `early` runs before the request is read. */
export function python(body: string, early = ''): string {
  return [`#!${findPython()} -IS`, tools, early, readRequest, body].join('\n');
}

/** Creates a shell program, which starts fast. */
export function shell(body: string): string {
  return `#!/bin/sh\n${body}\n`;
}

/** Notes the job's id and succeeds. */
export const notesJob = shell(`
request=$(cat)
rest=\${request#*'"job_id":"'}
echo "\${rest%%'"'*}" >> ../../notes
echo '{"status":"ok","result":"noted"}'`);

/** Always fails. */
export const alwaysFails = python('fail(f"failure {attempt}")');

/** Succeeds at once. */
export const succeeds = shell(`cat > /dev/null; echo '{"status":"ok","result":"done"}'`);

/** Notes its pid, then waits for a gate named after its attempt. */
export const waitsForGate = python(`
note("begin", request["job_id"], attempt, os.getpid())
wait_for(str(attempt))
note("end", request["job_id"], attempt, os.getpid())
ok(f"attempt {attempt}")`);
