import assert from 'node:assert/strict';
import test from 'node:test';
import tool from './thinking.tool.js';
import { create, describe, rejects } from './harness.js';

let sessions = 0;

function setup(t, options) {
  const self = create(t, tool, options);
  const sessionId = `test ${++sessions}`;
  const raw = (method, params = {}) => self.execute({ method, sessionId, ...params });
  const call = async (method, params) => {
    const { content, structuredContent } = await raw(method, params);
    return { text: content[0].text, ...structuredContent };
  };
  const refused = (method, params, code, text) => rejects(assert, tool, raw(method, params), code, text);
  return { self, raw, call, refused };
}

test('it describes itself', () => describe(assert, tool));

test('thoughts follow each other', async (t) => {
  const { call, raw } = setup(t);
  const first = await call('add_thought', { thought: 'the cache is cold', totalThoughts: 3 });
  assert.deepEqual([first.thoughtNumber, first.totalThoughts, first.nextThoughtNeeded, first.thoughtHistoryLength], [1, 3, true, 1]);
  assert.match(first.text, /^Thought 1 of 3 \(33%\) noted/);
  const off = await call('add_thought', { thought: 'so the first call is slow', thoughtNumber: 7 });
  assert.match(off.text, /It is number 2, not 7/);
  assert.equal(off.totalThoughts, 3, 'the estimate stays');
  await call('add_thought', { thought: 'warm it', thoughtNumber: 3 });
  const last = await call('add_thought', { thought: 'done $& $1', nextThoughtNeeded: false });
  assert.deepEqual([last.thoughtNumber, last.totalThoughts, last.nextThoughtNeeded], [4, 4, false]);
  const { text, thoughts } = await call('get_thoughts');
  assert.deepEqual(text.split('\n'), ['1. the cache is cold', '2. so the first call is slow', '3. warm it', '4. done $& $1']);
  assert.equal(thoughts.length, 4);
  const whole = await raw('get_thoughts');
  assert.deepEqual(Object.keys(whole), ['content', 'structuredContent']);
});

test('without a method it is a thought, as sequential thinking has it', async (t) => {
  const { self } = setup(t);
  const sessionId = `plain ${++sessions}`;
  const { structuredContent: got } = await self.execute({ sessionId, thought: 'x', thoughtNumber: 1, totalThoughts: 5, nextThoughtNeeded: true });
  assert.deepEqual([got.thoughtNumber, got.totalThoughts, got.nextThoughtNeeded, got.branches, got.thoughtHistoryLength], [1, 5, true, [], 1]);
  const { structuredContent: revision } = await self.execute({ sessionId, thought: 'y', thoughtNumber: 2, totalThoughts: 5, nextThoughtNeeded: true, isRevision: true, revisesThought: 1 });
  assert.equal(revision.summary.totalRevisions, 1);
  const { structuredContent: branch } = await self.execute({ sessionId, thought: 'z', thoughtNumber: 3, totalThoughts: 5, nextThoughtNeeded: true, branchFromThought: 1, branchId: 'b' });
  assert.deepEqual(branch.branches, ['b']);
});

test('revisions keep what was thought before', async (t) => {
  const { call, refused } = setup(t);
  await call('add_thought', { thought: 'it is the disk' });
  await call('add_thought', { thought: 'so buy a disk' });
  const { text, earlier } = await call('revise_thought', { thoughtNumber: 1, newThought: 'it is the network' });
  assert.match(text, /1 later thought rests/);
  assert.deepEqual(earlier, ['it is the disk']);
  assert.match((await call('get_thoughts')).text, /^1\. \(revised\) it is the network\n2\. so buy a disk$/);
  await refused('revise_thought', { thoughtNumber: 9, newThought: 'x' }, 'THOUGHT_NOT_FOUND', /there are 1 to 2/);
  await refused('add_thought', { thought: 'x', isRevision: true, revisesThought: 5 }, 'THOUGHT_NOT_FOUND');
  assert.equal((await call('get_thoughts')).thoughts.length, 2);
});

test('branches lead to ends of their own', async (t) => {
  const { call, refused } = setup(t);
  await call('add_thought', { thought: 'a database' });
  await call('add_thought', { thought: 'the usual one' });
  await call('create_branch', { fromThoughtNumber: 1, branchId: 'files', branchThought: 'or files' });
  await call('add_thought', { thought: 'files are enough', branchId: 'files', nextThoughtNeeded: false });
  await call('create_branch', { fromThoughtNumber: 4, branchId: 'one-file', branchThought: 'even one' });
  const { text, summary } = await call('get_thought_summary');
  assert.deepEqual(summary, { totalThoughts: 5, totalBranches: 2, totalRevisions: 0, currentThought: 5 });
  assert.match(text, /Main line \(1 → 2\), still open:\nthe usual one/);
  assert.match(text, /Branch files \(1 → 3 → 4\), ended:\nfiles are enough/);
  assert.match(text, /Branch one-file \(1 → 3 → 4 → 5\), still open:\neven one/);
  await refused('create_branch', { fromThoughtNumber: 1, branchId: 'files', branchThought: 'x' }, 'BRANCH_CONFLICT');
  await refused('create_branch', { fromThoughtNumber: 99, branchId: 'new', branchThought: 'x' }, 'THOUGHT_NOT_FOUND');
  await refused('add_thought', { thought: 'x', branchId: 'none' }, 'BRANCH_NOT_FOUND');
  await refused('add_thought', { thought: 'x', branchId: 'files', branchFromThought: 2 }, 'BRANCH_CONFLICT');
  assert.equal((await call('get_thoughts')).thoughts.length, 5, 'what was refused left nothing');
});

test('plans', async (t) => {
  const { call, refused } = setup(t);
  await call('add_plan_entry', { thoughtNumber: 3, thought: 'it must move', plan: 'copy, check, switch', action: 'copy' });
  const second = await call('add_plan_entry', { thought: 'and be watched', plan: 'an alarm', action: 'write it' });
  assert.deepEqual([second.entry.thoughtNumber, second.count], [4, 2]);
  assert.match((await call('get_plan_entry', { thoughtNumber: 3 })).text, /it must move\n {2}Plan: copy, check, switch\n {2}Next action: copy/);
  assert.match((await call('get_plan_summary')).text, /2 plan entries:[^]*Next action: write it/);
  await refused('get_plan_entry', { thoughtNumber: 9 }, 'PLAN_ENTRY_NOT_FOUND', /3, 4/);
  await refused('add_plan_entry', { thoughtNumber: 3, thought: 'x', plan: 'x', action: 'x' }, 'PLAN_ENTRY_CONFLICT');
  assert.equal((await call('clear_plan_entries')).cleared, 2);
  assert.equal((await call('get_plan_entries')).text, 'No plan entries yet.');
});

test('lines of thought are kept apart, also the default one', async (t) => {
  const { self, call } = setup(t, { environment: { DEFAULT_SESSION_ID: `own ${++sessions}` } });
  await self.execute({ method: 'add_thought', thought: 'default' });
  await self.execute({ method: 'add_plan_entry', thought: 'p', plan: 'p', action: 'p' });
  await call('add_thought', { thought: 'other' });
  await call('reset_thoughts');
  await call('clear_plan_entries');
  assert.equal((await call('get_thoughts')).text, 'No thoughts yet.');
  assert.match((await self.execute({ method: 'get_thoughts' })).content[0].text, /^1\. default$/);
  assert.equal((await self.execute({ method: 'get_plan_entries' })).structuredContent.count, 1);
});

test('there is an end', async (t) => {
  const { call, refused } = setup(t, { environment: { MAX_THINKING_STEPS: '3' } });
  for (const thought of ['a', 'b', 'c']) await call('add_thought', { thought });
  await refused('add_thought', { thought: 'd' }, 'MAX_STEPS_EXCEEDED', /3 thoughts/);
  await refused('create_branch', { fromThoughtNumber: 1, branchId: 'x', branchThought: 'd' }, 'MAX_STEPS_EXCEEDED');
  assert.deepEqual((await call('get_thought_summary')).branches, []);
  await call('reset_thoughts');
  await call('add_thought', { thought: 'again' });
});

test('wrong parameters are named', async (t) => {
  const { refused } = setup(t);
  const cases = [
    ['add_thought', {}, /thought/], ['add_thought', { thought: '' }, /thought/], ['add_thought', { thought: 'x', thoughtNumber: 0 }, /thoughtNumber/],
    ['add_thought', { thought: 'x', isRevision: true }, /revisesThought/], ['add_thought', { thought: 'x', branchFromThought: 1 }, /branchId/],
    ['revise_thought', { thoughtNumber: 1 }, /newThought/], ['create_branch', { branchId: 'x' }, /fromThoughtNumber/], ['add_plan_entry', { thought: 'x' }, /plan/],
    ['guess', {}, /method/],
  ];
  for (const [method, params, text] of cases) await refused(method, params, 'INVALID_PARAMETERS', text);
});
