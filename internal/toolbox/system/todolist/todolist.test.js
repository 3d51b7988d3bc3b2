import assert from 'node:assert/strict';
import test from 'node:test';
import tool from './todolist.tool.js';
import { create, describe, rejects } from './harness.js';
import { day, parse } from './lib/dates.js';

function setup(t, options) {
  const self = create(t, tool, options);
  const call = (method, params = {}) => self.execute({ method, ...params });
  const refused = (method, params, code, text) => rejects(assert, tool, call(method, params), code, text);
  const add = async (content, more = {}) => (await call('add_task', { content, ...more })).task_id;
  const contents = async (params = {}) => (await call('list_tasks', params)).tasks.map((task) => task.content);
  return { self, call, refused, add, contents };
}

const away = (days) => day(new Date(Date.now() + days * 24 * 60 * 60 * 1000));

test('it describes itself', () => describe(assert, tool));

test('a task from beginning to end', async (t) => {
  const { call, add, contents } = setup(t);
  const made = await call('add_task', { content: '  write it  ', description: 'all of it', priority: 3, due_date: '2031-02-28', tags: ['a', ' a ', 'b'] });
  assert.deepEqual([made.content, made.description, made.priority, made.status, made.due_date, made.tags, made.sort], ['write it', 'all of it', 3, 'pending', '2031-02-28', ['a', 'b'], 0]);
  const id = made.task_id;
  assert.deepEqual(await call('get_task', { task_id: id }), made);
  const updated = await call('update_task', { task_id: id, content: 'rewrite it', description: '', due_date: '', status: 'in_progress' });
  assert.deepEqual([updated.task_id, updated.content, updated.description, updated.due_date, updated.status, updated.created_at], [id, 'rewrite it', null, null, 'in_progress', made.created_at]);
  assert.deepEqual(await contents(), ['rewrite it']);
  const done = await call('complete_task', { task_id: id });
  assert.deepEqual([done.task_id, done.status], [id, 'completed']);
  assert.deepEqual(await call('complete_task', { task_id: id }), done, 'completed once');
  assert.deepEqual(await contents(), []);
  assert.deepEqual(await contents({ status: 'completed' }), ['rewrite it']);
  assert.equal((await call('update_task', { task_id: id, status: 'pending' })).completed_at, null);
  assert.equal((await call('archive_task', { task_id: id })).status, 'archived');
  assert.deepEqual(await call('delete_task', { task_id: id }), { task_id: id, deleted: true });
  assert.notEqual(await add('another'), id);
});

test('lists are kept apart', async (t) => {
  const { self, call, add, contents, refused } = setup(t);
  self.api.context = { sessionId: 'one' };
  const mine = await add('of the session');
  await add('of work', { project_id: 'work' });
  await add('家务', { project_id: '家' });
  assert.deepEqual(await contents(), ['of the session']);
  assert.deepEqual(await contents({ project_id: 'work' }), ['of work']);
  self.api.context = { sessionId: 'two' };
  assert.deepEqual(await contents(), []);
  await refused('complete_task', { task_id: mine }, 'TASK_NOT_FOUND');
  assert.deepEqual(await contents({ project_id: 'work' }), ['of work']);
  const { projects, current_session: current } = await call('list_projects');
  assert.deepEqual(projects, [{ project_id: 'work', task_count: 1, pending_count: 1, completed_count: 0 }, { project_id: '家', task_count: 1, pending_count: 1, completed_count: 0 }]);
  assert.deepEqual([current.session_id, current.task_count], ['two', 0]);
  for (const name of ['../x', 'a b', '-x', 'a/b', '__proto__ ']) await refused('list_tasks', { project_id: name }, 'INVALID_PROJECT_ID');
});

test('a runtime that tells no session has one list', async (t) => {
  const { self, add, contents } = setup(t);
  await add('kept');
  assert.deepEqual(await contents(), ['kept']);
  assert.equal([...self.items.keys()].filter((key) => key === 'session').length, 1);
});

test('filters and orders', async (t) => {
  const { call, add, contents } = setup(t);
  await add('late', { due_date: away(-2), priority: 4 });
  await add('now', { due_date: 'today', tags: ['x'] });
  await add('soon', { due_date: away(3), priority: 1, tags: ['x', 'y'] });
  const done = await add('whenever');
  const cases = [
    [{}, ['whenever', 'soon', 'now', 'late']],
    [{ sort_order: 'asc' }, ['late', 'now', 'soon', 'whenever']],
    [{ sort_by: 'due_date', sort_order: 'asc' }, ['late', 'now', 'soon', 'whenever']],
    [{ sort_by: 'due_date' }, ['soon', 'now', 'late', 'whenever']],
    [{ sort_by: 'priority' }, ['late', 'whenever', 'now', 'soon']],
    [{ quick_filter: 'today' }, ['now']],
    [{ quick_filter: 'overdue' }, ['late']],
    [{ tags: ['x'] }, ['soon', 'now']],
    [{ priority: 4 }, ['late']],
    [{ limit: 2 }, ['whenever', 'soon']],
    [{ limit: 2, offset: 3 }, ['late']],
  ];
  for (const [params, want] of cases) assert.deepEqual(await contents(params), want, JSON.stringify(params));
  await call('complete_task', { task_id: done });
  assert.deepEqual(await contents({ status: 'all' }), ['whenever', 'soon', 'now', 'late']);
  assert.deepEqual(await contents({ quick_filter: 'completed' }), ['whenever']);
  const page = await call('list_tasks', { limit: 1 });
  assert.deepEqual([page.total, page.shown], [3, 1]);
  const numbers = await call('get_statistics');
  assert.deepEqual(numbers, { total: 4, pending: 3, in_progress: 0, completed: 1, archived: 0, overdue: 1, completion_rate: 0.25, by_priority: { 1: 1, 2: 2, 3: 0, 4: 1 }, by_tag: { x: 2, y: 1 } });
});

test('the order can be changed', async (t) => {
  const { call, add, contents, refused } = setup(t);
  const [a, b, c] = [await add('a'), await add('b'), await add('c')];
  await call('reorder_tasks', { task_ids: [b, c, a] });
  assert.deepEqual(await contents(), ['b', 'c', 'a']);
  await call('reorder_tasks', { task_ids: [a] });
  assert.deepEqual(await contents(), ['a', 'b', 'c']);
  await add('d');
  assert.deepEqual(await contents(), ['d', 'a', 'b', 'c']);
  await refused('reorder_tasks', { task_ids: [a, 'nothing'] }, 'TASK_NOT_FOUND', /nothing/);
  await refused('reorder_tasks', { task_ids: [a, a] }, 'INVALID_PARAMETERS', /twice/);
  assert.deepEqual(await contents(), ['d', 'a', 'b', 'c']);
});

test('batches', async (t) => {
  const { self, call, add, contents } = setup(t);
  const id = await add('old');
  const good = await call('batch_tasks', { project_id: 'p', operations: [{ action: 'add', content: 'one' }, { action: 'add', content: 'two', project_id: 'q' }, { action: 'complete', task_id: id }] });
  assert.deepEqual([good.success, good.total, good.succeeded, good.failed, good.results.length], [true, 3, 3, 0, 3]);
  assert.deepEqual([await contents({ project_id: 'p' }), await contents({ project_id: 'q' }), await contents()], [['one'], ['two'], []]);
  const bad = [{ action: 'add', content: 'three' }, { action: 'delete', task_id: 'none' }, { action: 'add', content: 'four', due_date: 'someday' }];
  const partly = await call('batch_tasks', { project_id: 'p', operations: bad });
  assert.deepEqual([partly.success, partly.succeeded, partly.failed, partly.results.map((r) => r.success)], [false, 1, 2, [true, false, false]]);
  assert.match(partly.error, /2 of 3 .*number 2: task not found/);
  assert.deepEqual(await contents({ project_id: 'p' }), ['three', 'one']);
  const before = JSON.stringify([...self.items]);
  const none = await call('batch_tasks', { project_id: 'p', transaction: true, operations: bad });
  assert.deepEqual([none.success, none.succeeded, none.failed], [false, 0, 3]);
  assert.equal(JSON.stringify([...self.items]), before, 'nothing was made');
  assert.ok(tool.getBusinessErrors().find(({ code }) => code === 'BATCH_FAILED').match.test(none.error));
});

test('clearing', async (t) => {
  const { call, add, contents } = setup(t);
  const [a, b] = [await add('a'), await add('b')];
  await add('other', { project_id: 'p' });
  await call('complete_task', { task_id: a });
  assert.deepEqual(await call('clear_tasks'), { success: true, cleared: 1, left: 1, status: 'completed' });
  assert.equal((await call('get_task', { task_id: b })).content, 'b');
  assert.deepEqual(await call('clear_tasks', { status: 'all' }), { success: true, cleared: 1, left: 0, status: 'all' });
  assert.deepEqual(await contents({ project_id: 'p' }), ['other']);
});

test('what is too old is let go', async (t) => {
  const { self, call, add, contents } = setup(t, { environment: { TODOLIST_MAX_ARCHIVED: '2', TODOLIST_SESSION_TTL_DAYS: '1' } });
  self.api.context = { sessionId: 'old' };
  await add('forgotten');
  const index = JSON.parse(self.items.get('lists'));
  index['session:old'] -= 2 * 24 * 60 * 60 * 1000;
  self.items.set('lists', JSON.stringify(index));
  self.api.context = { sessionId: 'new' };
  for (const name of ['a', 'b', 'c']) await call('archive_task', { task_id: await add(name) });
  assert.equal((await contents({ status: 'archived' })).length, 2);
  assert.deepEqual([...self.items.keys()].sort(), ['list:session:new', 'lists']);
});

test('limits, and storage that fails', async (t) => {
  const { self, call, refused } = setup(t);
  for (let i = 0; i < 5; i++) await call('batch_tasks', { operations: Array.from({ length: 200 }, (_, k) => ({ action: 'add', content: `${i} ${k}` })) });
  await refused('add_task', { content: 'one more' }, 'LIST_FULL', /1000/);
  const { setItem } = self.api.storage;
  self.api.storage.setItem = () => { throw new Error('over its quota'); };
  await refused('clear_tasks', { status: 'completed', project_id: 'x' }, 'STORAGE_ERROR', /quota/);
  self.api.storage.setItem = setItem;
  self.items.set('lists', '"nonsense"');
  assert.equal((await call('list_projects')).projects.length, 0);
});

test('two workers that add at the same time lose nothing', async (t) => {
  const { self, call, contents, refused } = setup(t);
  await call('add_task', { content: 'mine', project_id: 'p' });
  const { getItem } = self.api.storage;
  let others = 0;
  const interfere = (most) => {
    self.api.storage.getItem = (key) => {
      const value = getItem(key);
      if (key === 'list:project:p' && others++ < most) {
        self.items.set(key, JSON.stringify({ tasks: [...value.tasks, { ...value.tasks[0], id: `other${others}`, content: `other ${others}` }] }));
      }
      return value;
    };
  };
  interfere(1);
  await call('add_task', { content: 'mine too', project_id: 'p' });
  assert.deepEqual((await contents({ project_id: 'p' })).sort(), ['mine', 'mine too', 'other 1']);
  interfere(Infinity);
  await refused('add_task', { content: 'never', project_id: 'p' }, 'STORAGE_ERROR', /others change/);
});

test('due dates', () => {
  const wednesday = new Date(2026, 10, 18, 23, 30);
  const cases = {
    '2026-11-20': '2026-11-20', '2026/3/5': '2026-03-05', '2028-02-29': '2028-02-29', '2026-11-20T10:00': '2026-11-20', '': null, 'Today': '2026-11-18', 'tomorrow': '2026-11-19',
    'in 3 days': '2026-11-21', 'in a week': '2026-11-25', '明天': '2026-11-19', '后天': '2026-11-20', '3天后': '2026-11-21', 'friday': '2026-11-20', 'wednesday': '2026-11-25', 'next tue': '2026-11-24', '周日': '2026-11-22', '星期一': '2026-11-23',
  };
  for (const [text, want] of Object.entries(cases)) assert.equal(parse(text, wednesday), want, text);
  for (const text of ['2026-02-30', '2026-13-01', 'someday', '20261120', '2026-11-20T99:00', 'constructor', 'in 3 years']) {
    assert.throws(() => parse(text, wednesday), { code: 'INVALID_DATE_FORMAT' }, text);
  }
});

test('wrong parameters are named', async (t) => {
  const { self, refused, add } = setup(t);
  const id = await add('x');
  const cases = [
    ['add_task', {}, /content/], ['add_task', { content: '   ' }, /content/], ['add_task', { content: 'x', priority: 5 }, /priority/],
    ['update_task', {}, /task_id/], ['update_task', { task_id: id, status: 'all' }, /status/], ['update_task', { task_id: id, content: '  ' }, /content/],
    ['list_tasks', { limit: 0 }, /limit/], ['list_tasks', { status: 'all', quick_filter: 'all' }, /exclude/], ['batch_tasks', { operations: [] }, /operations/],
    ['reorder_tasks', {}, /task_ids/], ['nothing', {}, /method/],
  ];
  for (const [method, params, text] of cases) await refused(method, params, 'INVALID_PARAMETERS', text);
  await refused('add_task', { content: 'x', due_date: '2026-02-30' }, 'INVALID_DATE_FORMAT');
  await refused('get_task', { task_id: 'none' }, 'TASK_NOT_FOUND');
  await rejects(assert, tool, self.execute(), 'INVALID_PARAMETERS');
});

test('names that are those of objects are only names', async (t) => {
  const { call, add, contents } = setup(t);
  await add('x', { project_id: 'constructor', tags: ['__proto__', 'toString'] });
  assert.deepEqual(await contents({ project_id: 'constructor' }), ['x']);
  const { by_tag: byTag } = await call('get_statistics', { project_id: 'constructor' });
  assert.deepEqual(Object.keys(byTag).sort(), ['__proto__', 'toString']);
});
