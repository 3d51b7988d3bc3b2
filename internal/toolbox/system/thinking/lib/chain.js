// A chain of thoughts: numbered from 1 on, some of them on branches, some put
// into other words later. A number means one thought for ever.

import { fail } from './fail.js';

export class Chain {
  constructor(max) {
    this.max = max;
    this.thoughts = [];
    this.branches = new Map(); // id → number of the thought that it begins at
    this.plans = [];
  }

  get revisions() {
    return this.thoughts.reduce((sum, thought) => sum + thought.earlier.length + (thought.revises ? 1 : 0), 0);
  }

  /** get is the thought of a number. */
  get(number) {
    const found = this.thoughts[number - 1];
    if (!found) {
      const known = this.thoughts.length === 0 ? 'there are none yet' : `there are 1 to ${this.thoughts.length}`;
      throw fail('THOUGHT_NOT_FOUND', `thought ${number} not found: ${known}`);
    }
    return found;
  }

  /** add appends a thought, on the trunk or on a branch that is there. */
  add(text, { branchId = null, revises = null, total, next = true } = {}) {
    if (this.thoughts.length + this.plans.length >= this.max) {
      throw fail('MAX_STEPS_EXCEEDED', `max steps exceeded: this session has ${this.max} thoughts and plans`);
    }
    const number = this.thoughts.length + 1;
    const before = this.thoughts.findLast?.((t) => t.branchId === branchId) ?? this.thoughts.at(-1);
    const thought = {
      number,
      thought: text,
      branchId,
      revises,
      totalThoughts: Math.max(number, total ?? before?.totalThoughts ?? number),
      nextThoughtNeeded: next,
      timestamp: new Date().toISOString(),
      earlier: [],
    };
    this.thoughts.push(thought);
    return thought;
  }

  /** branch begins a branch at a thought. */
  branch(id, from) {
    const start = this.get(from).number;
    if (this.branches.has(id)) {
      if (this.branches.get(id) === start) return;
      throw fail('BRANCH_CONFLICT', `branch ${id} conflicts: it begins at thought ${this.branches.get(id)} already, not at ${start}`);
    }
    this.branches.set(id, start);
  }

  /** revise puts a thought into other words and keeps the old ones. */
  revise(number, text) {
    const thought = this.get(number);
    thought.earlier.push({ thought: thought.thought, timestamp: thought.timestamp });
    if (thought.earlier.length > 20) thought.earlier.shift();
    thought.thought = text;
    thought.timestamp = new Date().toISOString();
    return thought;
  }

  /** path is the thoughts that lead to the end of a branch, from the first on. */
  path(id) {
    if (id === null) return this.thoughts.filter((t) => t.branchId === null);
    const start = this.get(this.branches.get(id));
    const own = this.thoughts.filter((t) => t.branchId === id);
    return [...this.path(start.branchId).filter((t) => t.number <= start.number), ...own];
  }

  /** counts are the numbers of what there is. */
  counts() {
    return { totalThoughts: this.thoughts.length, totalBranches: this.branches.size, totalRevisions: this.revisions, currentThought: this.thoughts.length };
  }
}
