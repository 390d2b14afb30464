/** The output formats of agents. */
import { describe, expect, test } from 'vitest';
import { stripToken } from '../../plugins/agent/heartbeat.ts';
import { parseOutput } from '../../plugins/agent/output.ts';
import { claudeOutput, codexOutput } from '../support/fake-agent.ts';

const thread = '0199a213-81c0-7800-8aa1-bbab2a035a53';

describe('claude', () => {
  test('says its result, its session and what it took', () => {
    expect(parseOutput('claude', claudeOutput(' hi \n', 's-1'))).toEqual({
      text: 'hi',
      session: 's-1',
      fault: undefined,
      usage: { input_tokens: 10, output_tokens: 5 },
      costUsd: 0.0123,
    });
  });

  test.each([
    [
      'a list with the result at its end',
      `[{"type":"system"},{"type":"result","result":"hi"},{"type":"x"}]`,
    ],
    ['a list without a result', `[1,{"result":"hi"}]`],
    ['a warning before it', `Warning: old version\n{"type":"result","result":"hi"}\n`],
    ['text that is no JSON', 'hi'],
  ])('is understood as %s', (_what, stdout) => {
    expect(parseOutput('claude', stdout)).toMatchObject({ text: 'hi', fault: undefined });
  });

  test.each([
    ['', ''],
    ['{}', ''],
    ['{"result":null}', ''],
    ['{"result":{"a":1}}', '{"a":1}'],
    ['null', 'null'],
    ['[]', '[]'],
  ])('reads %j as %j', (stdout, text) => {
    expect(parseOutput('claude', stdout).text).toBe(text);
  });

  test.each([
    [
      'a warning after it',
      '{"type":"result","is_error":true,"result":"no credit"}\n(node:1) Warning: x\n',
    ],
    [
      'other lines around it',
      '{"type":"x"}\n{"type":"result","is_error":true,"result":"no credit"}\n{"a":1}',
    ],
    ['an error', '{"type":"error","error":{"type":"overloaded_error","message":"no credit"}}'],
    ['an error before a warning', '{"type":"error","message":"no credit"}\nWarning: x'],
    ['an error at the end of a list', '[{"type":"system"},{"type":"error","error":"no credit"}]'],
  ])('has failed where it says so in %s', (_what, stdout) => {
    expect(parseOutput('claude', stdout).fault).toBe('no credit');
  });

  test('has not failed where it has a result after an error, or speaks of JSON', () => {
    const overcome = '{"type":"error","message":"again"}\n{"type":"result","result":"hi"}\nbye';
    expect(parseOutput('claude', overcome)).toMatchObject({ text: 'hi', fault: undefined });
    const spoken = 'Put this in:\n{"a":1}\nThat is all.';
    expect(parseOutput('claude', spoken)).toMatchObject({ text: spoken, fault: undefined });
    expect(parseOutput('claude', '{"type":"error"}').fault).toBe('it says that it failed');
  });

  test('gives no session that could be anything else as an argument', () => {
    for (const session of ['--dangerously-skip-permissions', 'a b', '', 'x'.repeat(200)]) {
      expect(parseOutput('claude', claudeOutput('hi', session)).session).toBeUndefined();
    }
  });
});

describe('codex', () => {
  test('says what came after its last tool', () => {
    expect(parseOutput('codex', codexOutput('Done.'))).toEqual({
      text: 'Done.',
      session: thread,
      fault: undefined,
      usage: { input_tokens: 7, cached_input_tokens: 1, output_tokens: 3 },
      costUsd: undefined,
    });
  });

  test('is read line by line, whatever else is between', () => {
    const stdout = [
      'reading prompt from stdin',
      '{"type":"thread.started","thread_id":"first"}',
      '{"type":"thread.started","thread_id":"second"}',
      '{"type":"item.updated","item":{"type":"agent_message","text":"half"}}',
      '{"type":"item.completed","item":{"type":"agent_message","text":"one"}}',
      '{broken',
      '[1,2]',
      '{"type":"item.completed","item":{"text":"two"}}',
      '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"three"}]}',
      '{"type":"message","role":"user","content":"not mine"}',
      '{"type":"token_count","usage":{"input_tokens":1}}',
    ].join('\n');
    expect(parseOutput('codex', stdout)).toMatchObject({
      text: 'one\n\ntwo\n\nthree',
      session: 'first',
      usage: { input_tokens: 1 },
    });
  });

  test('shows no events as its response when it printed no text', () => {
    const stdout = '{"type":"thread.started","thread_id":"t"}\n{"type":"turn.completed"}\n';
    expect(parseOutput('codex', stdout)).toMatchObject({
      text: '',
      session: 't',
      fault: undefined,
    });
  });

  test("shows lines that aren't events as they are", () => {
    expect(parseOutput('codex', 'command not supported').text).toBe('command not supported');
  });

  test('has failed when its turn has, and not when that was overcome', () => {
    const error = '{"type":"error","message":"reconnecting"}\n';
    expect(parseOutput('codex', error).fault).toBe('reconnecting');
    expect(parseOutput('codex', `${error}{"type":"turn.completed"}`).fault).toBeUndefined();
    expect(parseOutput('codex', '{"type":"turn.failed"}').fault).toBe('the turn failed');
  });
});

describe('the token of a heartbeat', () => {
  test.each([
    ['OK', ''],
    [' OK\n', ''],
    ['OK OK', ''],
    ['OK The disk is full.', 'The disk is full.'],
    ['The disk is full. OK', 'The disk is full.'],
    ['Say OK to it.', 'Say OK to it.'],
    ['OKAY then', 'OKAY then'],
    ['NOT_OK', 'NOT_OK'],
    ['', ''],
    ['OK.', ''],
    ['OK!', ''],
    ['**OK**', ''],
    ['__OK__', ''],
    ['`OK`', ''],
    ['```\nOK\n```', ''],
    ['"OK"', ''],
    ['„OK“ …', ''],
    ['<b>OK</b>', ''],
    ['> ok', ''],
    ['- Ok, OK.', ''],
    ['OK. The disk is full!', 'OK. The disk is full!'],
    ['**OK** The disk is full.', '**OK** The disk is full.'],
    ['ok 1', 'ok 1'],
    ['🔥 OK', '🔥'],
    ['...', '...'],
    ['okay', 'okay'],
  ])('in %j leaves %j', (text, rest) => {
    expect(stripToken(text, 'OK')).toBe(rest);
  });
});
