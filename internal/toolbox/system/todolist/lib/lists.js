// The lists, and where they are kept. Storage is read at the beginning of each
// call and written at its end, with nothing between them that waits.

import { randomBytes, randomUUID } from 'node:crypto';
import { fail } from './fail.js';

const INDEX = 'lists';
const SESSION = 'session';
const MAX_OPEN = 1000;

/** CHANGED is thrown by save if another worker has saved a list since it was read. */
export const CHANGED = Symbol('changed');
const DAY = 24 * 60 * 60 * 1000;

export class Lists {
  constructor(api) {
    this.api = api;
    this.storage = api.storage;
    const index = this.storage.getItem(INDEX);
    this.index = index && typeof index === 'object' && !Array.isArray(index) ? index : {};
    this.open = new Map();
    this.changed = new Set();
  }

  /** session is the session's id. A runtime that tells none has one list for all. */
  get session() {
    const told = this.api.context?.sessionId ?? this.api.sessionId;
    if (told) return String(told);
    let id = this.storage.getItem(SESSION);
    if (typeof id !== 'string') {
      id = randomUUID();
      this.storage.setItem(SESSION, id);
    }
    return id;
  }

  /** list is the list of a project, or of the session. */
  list(project) {
    if (project === undefined || project === null || project === '') return this.load(`session:${this.session}`);
    if (!/^[\p{L}\p{N}][\p{L}\p{N}_.-]{0,63}$/u.test(project)) throw fail('INVALID_PROJECT_ID', `invalid project_id ${JSON.stringify(project)}`);
    return this.load(`project:${project}`);
  }

  load(key) {
    let list = this.open.get(key);
    if (!list) {
      const kept = this.storage.getItem(`list:${key}`);
      const tasks = Array.isArray(kept?.tasks) ? kept.tasks.filter((task) => typeof task?.id === 'string') : [];
      const [kind, id] = [key.slice(0, key.indexOf(':')), key.slice(key.indexOf(':') + 1)];
      list = { key, tasks, read: JSON.stringify(kept ?? null), project_id: kind === 'project' ? id : null, session_id: kind === 'session' ? id : null };
      this.open.set(key, list);
    }
    return list;
  }

  /** projects are the lists of all projects, by name. */
  projects() {
    return Object.keys(this.index).filter((key) => key.startsWith('project:')).sort().map((key) => this.load(key));
  }

  /** find looks for a task in the list of the session and in those of the projects. */
  find(id) {
    for (const list of [this.list(), ...this.projects()]) {
      const task = list.tasks.find((one) => one.id === id);
      if (task) return { list, task };
    }
    throw fail('TASK_NOT_FOUND', `task not found: ${id}`);
  }

  /** add puts a new task into a list; its id is one that no other has. */
  add(list, task) {
    if (list.tasks.filter(({ status }) => status === 'pending' || status === 'in_progress').length >= MAX_OPEN) {
      throw fail('LIST_FULL', `the list is full: it has ${MAX_OPEN} open tasks`);
    }
    task.id = `t_${randomBytes(6).toString('hex')}`;
    list.tasks.push(task);
    this.change(list);
  }

  change(list) {
    this.changed.add(list);
  }

  /** save writes the lists that were changed, and lets go of what is too old. */
  save() {
    if (this.changed.size === 0) return;
    for (const list of this.changed) {
      if (JSON.stringify(this.storage.getItem(`list:${list.key}`) ?? null) !== list.read) throw CHANGED;
    }
    const max = this.number('TODOLIST_MAX_ARCHIVED', 200);
    const now = Date.now();
    try {
      for (const list of this.changed) {
        const archived = list.tasks.filter(({ status }) => status === 'archived').sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
        const old = new Set(archived.slice(max));
        list.tasks = list.tasks.filter((task) => !old.has(task));
        const key = `list:${list.key}`;
        if (list.tasks.length === 0) {
          this.storage.removeItem(key);
          delete this.index[list.key];
        } else {
          this.storage.setItem(key, { tasks: list.tasks });
          this.index[list.key] = now;
        }
      }
      const limit = now - this.number('TODOLIST_SESSION_TTL_DAYS', 7) * DAY;
      for (const [key, used] of Object.entries(this.index)) {
        if (!key.startsWith('session:') || used >= limit) continue;
        this.storage.removeItem(`list:${key}`);
        delete this.index[key];
      }
      this.storage.setItem(INDEX, this.merged());
    } catch (error) {
      throw fail('STORAGE_ERROR', `storage: the tasks were not saved: ${error.message}`, error);
    }
    this.changed.clear();
  }

  // Another worker may have added lists in the meantime.
  merged() {
    const mine = this.index;
    const now = this.storage.getItem(INDEX);
    for (const [key, used] of Object.entries(now && typeof now === 'object' ? now : {})) {
      if (!(key in mine) && this.storage.getItem(`list:${key}`)) mine[key] = used;
    }
    return mine;
  }

  number(name, fallback) {
    const n = Number(this.api.environment?.get?.(name));
    return Number.isFinite(n) && n >= 1 ? n : fallback;
  }
}
