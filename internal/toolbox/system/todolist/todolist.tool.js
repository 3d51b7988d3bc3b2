// Tasks in lists: one of the session, and one for each project. All of it is in
// the tool's storage, where each list has its own key.

import { apply } from './lib/operations.js';
import { fail } from './lib/fail.js';
import { CHANGED, Lists } from './lib/lists.js';
import { view } from './lib/view.js';

const PRIORITY = { type: 'integer', enum: [1, 2, 3, 4], description: '1 low, 2 normal, 3 high, 4 urgent.' };
const FIELDS = {
  content: { type: 'string', minLength: 1, maxLength: 2000, description: 'What is to be done, in one sentence.' },
  description: { type: 'string', maxLength: 20000, description: 'Details; an empty text removes them.' },
  priority: PRIORITY,
  due_date: { type: 'string', maxLength: 60, description: 'YYYY-MM-DD, today, tomorrow, in 3 days, monday; an empty text removes it.' },
  tags: { type: 'array', items: { type: 'string', minLength: 1, maxLength: 60 }, maxItems: 30, description: 'Tags; as a filter any of them.' },
  sort: { type: 'number', description: 'Place in the list, higher is further up. By default above all others.' },
};

const REQUIRED = {
  add_task: ['content'],
  list_tasks: [],
  get_task: ['task_id'],
  update_task: ['task_id'],
  complete_task: ['task_id'],
  archive_task: ['task_id'],
  delete_task: ['task_id'],
  clear_tasks: [],
  batch_tasks: ['operations'],
  reorder_tasks: ['task_ids'],
  get_statistics: [],
  list_projects: [],
};

export default {
  getMetadata() {
    return {
      id: 'todolist',
      name: 'TodoList',
      description: 'Keeps lists of tasks with priority, due date, tags and order: one list of the session and one for each project. Use it for work of several steps, to note what is left to do and tick it off, or when somebody wants to keep tasks for later (project_id). Do not use it for notes without something to do, for reminders at a time, or for a single step that is done at once.',
      version: '1.0.0',
      category: 'productivity',
      author: 'Toolyard',
      tags: ['todo', 'task', 'plan', 'project', 'list'],
      scenarios: [
        'Write down the steps of a larger job and tick them off one by one',
        'Keep the tasks of a project over many sessions',
        'See what is due today or overdue',
        'Add or complete many tasks in one call (batch_tasks)',
        'Put tasks into another order (reorder_tasks)',
      ],
      limitations: [
        'Nobody is reminded; due dates are only shown and filtered',
        'At most 1,000 open tasks in a list; of archived ones the newest 200 stay',
        'Lists of sessions that nobody used for 7 days are removed; those of projects stay',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: Object.keys(REQUIRED), examples: ['list_tasks'], description: 'What to do.' },
          ...FIELDS,
          project_id: { type: 'string', maxLength: 64, description: 'The list of a project, such as work or home-move. Without it the list of the session.' },
          task_id: { type: 'string', minLength: 1, maxLength: 64, description: 'The task, as add_task and list_tasks show it.' },
          status: { type: 'string', enum: ['pending', 'in_progress', 'completed', 'archived', 'all'], description: 'list_tasks, clear_tasks: which tasks. update_task: the new status.' },
          quick_filter: { type: 'string', enum: ['today', 'pending', 'completed', 'overdue', 'all'], description: 'list_tasks: a filter in one word, instead of status.' },
          sort_by: { type: 'string', enum: ['sort', 'created_at', 'due_date', 'priority'], default: 'sort', description: 'list_tasks: the order.' },
          sort_order: { type: 'string', enum: ['asc', 'desc'], default: 'desc', description: 'list_tasks: its direction.' },
          limit: { type: 'integer', minimum: 1, maximum: 1000, default: 50, description: 'list_tasks: at most so many.' },
          offset: { type: 'integer', minimum: 0, default: 0, description: 'list_tasks: leave out so many at the beginning.' },
          operations: {
            type: 'array',
            minItems: 1,
            maxItems: 200,
            description: 'batch_tasks: what to do, one after another.',
            items: {
              type: 'object',
              properties: {
                action: { type: 'string', enum: ['add', 'update', 'complete', 'archive', 'delete'], description: 'What to do.' },
                task_id: { type: 'string', maxLength: 64, description: 'The task; not for add.' },
                ...FIELDS,
                status: { type: 'string', enum: ['pending', 'in_progress', 'completed', 'archived'], description: 'The new status, for update.' },
                project_id: { type: 'string', maxLength: 64, description: 'The list, for add.' },
              },
              required: ['action'],
            },
          },
          transaction: { type: 'boolean', default: false, description: 'batch_tasks: all or none.' },
          task_ids: { type: 'array', items: { type: 'string', minLength: 1, maxLength: 64 }, minItems: 1, maxItems: 1000, description: 'reorder_tasks: the tasks from top to bottom. Those that are not named follow as they were.' },
        },
        required: ['method'],
        examples: [{ method: 'list_tasks', quick_filter: 'pending' }],
      },
      environment: {
        type: 'object',
        properties: {
          TODOLIST_SESSION_TTL_DAYS: { type: 'string', default: '7', description: 'Days after which the list of a session that nobody uses is removed.' },
          TODOLIST_MAX_ARCHIVED: { type: 'string', default: '200', description: 'How many archived tasks a list keeps.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    return { './lib/dates.js': 'local', './lib/fail.js': 'local', './lib/lists.js': 'local', './lib/operations.js': 'local', './lib/view.js': 'local' };
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('TASK_NOT_FOUND', 'There is no such task in the lists of this session and of the projects.', /task not found/i, 'Look up the task_id with list_tasks.'),
      known('INVALID_PROJECT_ID', 'The name of the project is not usable.', /invalid project_id/i, 'Use letters, digits, hyphens and underscores, such as work or home-move.'),
      known('INVALID_DATE_FORMAT', 'The due date is not understood.', /date format/i, 'Give YYYY-MM-DD, or words such as tomorrow or in 3 days.'),
      known('LIST_FULL', 'The list has as many open tasks as it may have.', /list is full/i, 'Complete, archive or clear tasks first.'),
      known('BATCH_FAILED', 'Operations of the batch failed.', /^batch: /i, 'See the results for what failed, and repeat only that.'),
      known('STORAGE_ERROR', 'The tasks could not be saved.', /storage|quota|ENOSPC/i, 'Clear old tasks, or free some space, and try again.', true),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the tool\'s manual for the parameters of the method.'),
    ];
  },

  getRuntimeConfig() {
    return { sandboxType: 'nodejs', networkAccess: false };
  },

  async execute(params) {
    const args = this.checked(params);
    // Other sessions have workers of their own and the same storage.
    for (let tries = 1; ; tries++) {
      try {
        return METHODS[args.method](new Lists(this.api), args);
      } catch (error) {
        if (error !== CHANGED) throw error;
        if (tries >= 10) throw fail('STORAGE_ERROR', 'storage: others change the list all the time; the tasks were not saved');
      }
    }
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = params ?? {};
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (!Object.hasOwn(REQUIRED, args.method)) faults.push(`method ${JSON.stringify(args.method)} is none of ${Object.keys(REQUIRED).join(', ')}`);
      else faults.push(...REQUIRED[args.method].filter((name) => args[name] === undefined || args[name] === null).map((name) => `${args.method} needs ${name}`));
      if (args.status && args.quick_filter && args.method === 'list_tasks') faults.push('status and quick_filter exclude each other');
      if (args.method === 'update_task' && args.status === 'all') faults.push('the status of a task cannot be all');
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },
};

// one makes a method of one operation on one list.
function one(action) {
  return (lists, args) => {
    const result = apply(lists, { ...args, action }, args.project_id);
    lists.save();
    return result;
  };
}

const METHODS = {
  add_task: one('add'),
  update_task: one('update'),
  complete_task: one('complete'),
  archive_task: one('archive'),
  delete_task: one('delete'),
  batch_tasks: batch,
  get_task: (lists, args) => view.task(lists.find(args.task_id).task),
  list_tasks: (lists, args) => view.list(lists.list(args.project_id), args),
  get_statistics: (lists, args) => view.statistics(lists.list(args.project_id)),
  list_projects: (lists) => view.projects(lists),

  clear_tasks(lists, args) {
    const list = lists.list(args.project_id);
    const status = args.status ?? 'completed';
    const before = list.tasks.length;
    list.tasks = list.tasks.filter((task) => status !== 'all' && task.status !== status);
    lists.change(list);
    lists.save();
    return { success: true, cleared: before - list.tasks.length, left: list.tasks.length, status };
  },

  reorder_tasks(lists, args) {
    const list = lists.list(args.project_id);
    const named = new Map(args.task_ids.map((id, i) => [id, i]));
    if (named.size < args.task_ids.length) throw fail('INVALID_PARAMETERS', 'invalid parameters: task_ids has a task twice');
    const missing = args.task_ids.filter((id) => !list.tasks.some((task) => task.id === id));
    if (missing.length > 0) throw fail('TASK_NOT_FOUND', `task not found in this list: ${missing.join(', ')}`);
    const order = [...list.tasks].sort((a, b) => (named.get(a.id) ?? Infinity) - (named.get(b.id) ?? Infinity) || b.sort - a.sort);
    const now = new Date().toISOString();
    order.forEach((task, i) => {
      const sort = order.length - 1 - i;
      if (task.sort !== sort) Object.assign(task, { sort, updated_at: now });
    });
    lists.change(list);
    lists.save();
    return { success: true, total: args.task_ids.length, task_ids: args.task_ids };
  },
};

// batch makes operations one after another; what fails does not keep the others
// from being made, unless it is a transaction.
function batch(lists, args) {
  const results = [];
  let failed = 0;
  for (const [index, operation] of args.operations.entries()) {
    try {
      const { task_id } = apply(lists, operation, args.project_id);
      results.push({ index, action: operation.action, success: true, task_id, error: null });
    } catch (error) {
      if (!error?.code) throw error;
      failed++;
      results.push({ index, action: operation.action, success: false, task_id: operation.task_id ?? null, error: error.message });
      if (args.transaction) break;
    }
  }
  const total = args.operations.length;
  if (failed === 0 || !args.transaction) lists.save();
  if (failed === 0) return { success: true, total, succeeded: total, failed, results };
  const first = results.find(({ success }) => !success);
  const error = args.transaction
    ? `batch: operation ${first.index + 1} of ${total} failed, so none was made: ${first.error}`
    : `batch: ${failed} of ${total} operations failed, the others were made; the first was number ${first.index + 1}: ${first.error}`;
  return { success: false, error, code: 'BATCH_FAILED', total, succeeded: args.transaction ? 0 : total - failed, failed: args.transaction ? total : failed, results };
}
