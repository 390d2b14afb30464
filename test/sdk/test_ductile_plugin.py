"""The SDK for Python; run by test/sdk/sdk.test.ts."""

import io
import json
import sys
import unittest

import ductile_plugin as sdk


class Stdin:
    def __init__(self, text):
        self.buffer = io.BytesIO(text.encode())


def ask(commands, **request):
    """The answer and the exit code of a plugin with these commands."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = Stdin(json.dumps({"protocol": 2, "job_id": "j1", **request}))
    sys.stdout, sys.stderr = out, _ = io.StringIO(), io.StringIO()
    try:
        sdk.run(commands)
    except SystemExit as ended:
        return json.loads(out.getvalue()), ended.code
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


class Answers(unittest.TestCase):
    def test_what_is_printed_does_not_get_into_the_answer(self):
        def chatty(request):
            print("hello")
            return sdk.answer("done")

        self.assertEqual(ask({"poll": chatty}, command="poll"), ({"status": "ok", "result": "done"}, 0))

    def test_logs_are_kept_also_when_it_fails(self):
        def fails(request):
            request.log.warn("close to the limit")
            raise sdk.Failure("no room", retry=False)

        reply, code = ask({"poll": fails}, command="poll")
        self.assertEqual(code, 0)
        self.assertEqual(reply, {
            "status": "error", "error": "no room", "retry": False,
            "logs": [{"level": "warn", "message": "close to the limit"}],
        })

    def test_a_failure_may_say_when_to_try_again(self):
        def fails(request):
            raise sdk.Failure("too many", retry_after_seconds=45)

        self.assertEqual(ask({"poll": fails}, command="poll"), (
            {"status": "error", "error": "too many", "retry": True, "retry_after_seconds": 45}, 0))

    def test_wrong_configuration_ends_with_78(self):
        def checks(request):
            return sdk.answer(request.config.text("url", required=True))

        reply, code = ask({"poll": checks}, command="poll", config={"url": 7})
        self.assertEqual((code, reply["retry"]), (78, False))
        self.assertIn("config.url", reply["error"])

    def test_what_is_logged_may_be_no_text(self):
        def logs(request):
            request.log.error(ValueError("no room"))
            return sdk.answer("done", logs=[("info", 7)])

        reply, code = ask({"poll": logs}, command="poll")
        self.assertEqual(code, 0)
        self.assertEqual([entry["message"] for entry in reply["logs"]], ["no room", "7"])

    def test_an_answer_that_is_none_is_told_as_a_failure_with_its_logs(self):
        answers = [None, "done", sdk.answer("done", [sdk.event("a.b", {"at": object()})]), {"n": float("nan")}]
        for answer in answers:
            def wrong(request):
                request.log.info("begun")
                return answer

            reply, code = ask({"poll": wrong}, command="poll")
            self.assertEqual((code, reply["status"], reply["retry"]), (1, "error", True))
            self.assertIn("poll", reply["error"])
            self.assertEqual(reply["logs"], [{"level": "info", "message": "begun"}])

    def test_events_may_have_a_key(self):
        self.assertEqual(sdk.event("a.b", {"n": 1}), {"type": "a.b", "payload": {"n": 1}})
        self.assertEqual(sdk.event("a.b", {}, "k")["dedupe_key"], "k")


class Requests(unittest.TestCase):
    def test_keys_of_effects_are_the_same_for_every_attempt(self):
        first, second = (sdk.Request({"idempotency_key": "k", "attempt": n}) for n in (1, 2))
        self.assertEqual(first.key_for("mail"), second.key_for("mail"))
        self.assertNotEqual(first.key_for("mail"), first.key_for("bill"))
        # As in TypeScript.
        self.assertEqual(first.key_for("mail"), "a2dd33efdb7e0330d9d84143abbab5400c0b3625050d3f9c49c473d6c5872648")

    def test_handle_finds_its_data_in_the_event(self):
        request = sdk.Request({"command": "handle", "event": {"type": "x", "payload": {"a": "b"}}})
        self.assertEqual(request.payload.text("a"), "b")


class Unseen(unittest.TestCase):
    def test_only_what_is_new_comes_back(self):
        fresh, seen = sdk.find_unseen(["a", "b"], str, ["a"])
        self.assertEqual((fresh, seen), (["b"], ["a", "b"]))
        self.assertEqual(sdk.find_unseen(["a", "b"], str, seen), ([], ["a", "b"]))

    def test_the_latest_are_kept_and_never_fewer_than_there_are(self):
        self.assertEqual(sdk.find_unseen(["d"], str, ["a", "b", "c"], keep=2)[1], ["c", "d"])
        self.assertEqual(sdk.find_unseen(["a", "b", "c"], str, None, keep=1)[1], ["a", "b", "c"])


if __name__ == "__main__":
    unittest.main()
