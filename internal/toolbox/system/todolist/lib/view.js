// What callers see of lists and tasks.

import { day } from './dates.js';

const OPEN = new Set(['pending', 'in_progress']);
const open = (task) => OPEN.has(task.status);

export const view = {
  task(task) {
    const { id, ...rest } = task;
    return { task_id: id, ...rest };
  },

  /** list filters, orders and cuts a list: {total, tasks}. */
  list(list, { quick_filter: quick, status, priority, tags, sort_by: by = 'sort', sort_order: order = 'desc', limit = 50, offset = 0 }) {
    const today = day(new Date());
    const filters = {
      today: (task) => open(task) && task.due_date === today,
      overdue: (task) => open(task) && task.due_date !== null && task.due_date < today,
      pending: open,
      completed: (task) => task.status === 'completed',
      all: () => true,
    };
    const wanted = quick ? filters[quick] : !status ? open : status === 'all' ? filters.all : (task) => task.status === status;
    const found = list.tasks.filter((task) => wanted(task) &&
      (priority === undefined || task.priority === priority) &&
      (!tags?.length || tags.some((tag) => task.tags.includes(tag))));
    const sign = order === 'asc' ? 1 : -1;
    found.sort((a, b) => compare(a[by], b[by], sign) || sign * (a.sort - b.sort) || sign * compare(a.created_at, b.created_at, 1));
    const tasks = found.slice(offset, offset + limit).map(view.task);
    return { total: found.length, ...(tasks.length < found.length && { shown: tasks.length, offset }), tasks };
  },

  statistics(list) {
    const today = day(new Date());
    const count = (test) => list.tasks.filter(test).length;
    const byTag = {};
    for (const tag of list.tasks.flatMap((task) => task.tags)) {
      Object.defineProperty(byTag, tag, { value: (Object.hasOwn(byTag, tag) ? byTag[tag] : 0) + 1, enumerable: true, configurable: true, writable: true });
    }
    const total = list.tasks.length;
    const completed = count((task) => task.status === 'completed');
    return {
      total,
      pending: count((task) => task.status === 'pending'),
      in_progress: count((task) => task.status === 'in_progress'),
      completed,
      archived: count((task) => task.status === 'archived'),
      overdue: count((task) => open(task) && task.due_date !== null && task.due_date < today),
      completion_rate: total > 0 ? completed / total : 0,
      by_priority: Object.fromEntries([1, 2, 3, 4].map((n) => [n, count((task) => task.priority === n)])),
      by_tag: byTag,
    };
  },

  projects(lists) {
    const counts = (list) => ({
      task_count: list.tasks.filter((task) => task.status !== 'archived').length,
      pending_count: list.tasks.filter(open).length,
      completed_count: list.tasks.filter((task) => task.status === 'completed').length,
    });
    return {
      projects: lists.projects().map((list) => ({ project_id: list.project_id, ...counts(list) })).filter((p) => p.task_count > 0),
      current_session: { session_id: lists.session, ...counts(lists.list()) },
    };
  },
};

// compare puts what is missing last, whatever the direction.
function compare(a, b, sign) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -sign : sign;
}
