// What can be done to one task.

import { parse } from './dates.js';
import { fail } from './fail.js';
import { view } from './view.js';

/** apply does one operation and returns what its caller sees of the task. Nothing is saved. */
export function apply(lists, operation, project) {
  const act = ACTIONS[operation.action];
  if (!act) throw fail('INVALID_PARAMETERS', `invalid parameters: unknown action ${JSON.stringify(operation.action)}`);
  if (operation.action === 'add') return act(lists, operation, operation.project_id || project);
  if (!operation.task_id) throw fail('INVALID_PARAMETERS', `invalid parameters: ${operation.action} needs task_id`);
  const { list, task } = lists.find(operation.task_id);
  const result = act(lists, operation, list, task);
  lists.change(list);
  return result;
}

const ACTIONS = {
  add(lists, fields, project) {
    const list = lists.list(project);
    const now = new Date().toISOString();
    const task = {
      id: '',
      content: words(fields.content),
      description: fields.description || null,
      status: 'pending',
      priority: fields.priority ?? 2,
      project_id: list.project_id,
      session_id: list.session_id,
      sort: fields.sort ?? list.tasks.reduce((top, other) => Math.max(top, other.sort), -1) + 1,
      tags: tags(fields.tags),
      due_date: fields.due_date ? parse(fields.due_date) : null,
      created_at: now,
      updated_at: now,
      completed_at: null,
    };
    if (fields.status && fields.status !== 'pending') setStatus(task, fields.status, now);
    lists.add(list, task);
    return view.task(task);
  },

  update(lists, fields, list, task) {
    const now = new Date().toISOString();
    const next = { ...task };
    if (fields.content !== undefined) next.content = words(fields.content);
    if (fields.description !== undefined) next.description = fields.description || null;
    if (fields.priority !== undefined) next.priority = fields.priority;
    if (fields.due_date !== undefined) next.due_date = fields.due_date === null ? null : parse(fields.due_date);
    if (fields.sort !== undefined) next.sort = fields.sort;
    if (fields.tags !== undefined) next.tags = tags(fields.tags);
    if (fields.status !== undefined) setStatus(next, fields.status, now);
    if (JSON.stringify(next) !== JSON.stringify(task)) Object.assign(task, next, { updated_at: now });
    return view.task(task);
  },

  complete(lists, fields, list, task) {
    const now = new Date().toISOString();
    if (task.status !== 'completed') {
      setStatus(task, 'completed', now);
      task.updated_at = now;
    }
    return { task_id: task.id, status: task.status, completed_at: task.completed_at };
  },

  archive(lists, fields, list, task) {
    if (task.status !== 'archived') Object.assign(task, { status: 'archived', updated_at: new Date().toISOString() });
    return { task_id: task.id, status: task.status, updated_at: task.updated_at };
  },

  delete(lists, fields, list, task) {
    list.tasks = list.tasks.filter((one) => one !== task);
    return { task_id: task.id, deleted: true };
  },
};

function setStatus(task, status, now) {
  if (status === 'completed' && task.status !== 'completed') task.completed_at = now;
  if (status === 'pending' || status === 'in_progress') task.completed_at = null;
  task.status = status;
}

function words(content) {
  const text = typeof content === 'string' ? content.trim() : '';
  if (text === '') throw fail('INVALID_PARAMETERS', 'invalid parameters: content is missing or empty');
  return text;
}

function tags(list) {
  return [...new Set((list ?? []).map((tag) => tag.trim()).filter(Boolean))];
}
