// Thinking step by step, with second thoughts: thoughts can be revised and
// branched off, and plans noted beside them. All of it lives as long as the
// session's worker and is nobody else's.

import { Chain } from './lib/chain.js';
import { fail } from './lib/fail.js';
import * as show from './lib/show.js';

const MAX_CHAINS = 50;
const chains = new Map();

const TEXT = { type: 'string', minLength: 1, maxLength: 20000 };
const NUMBER = { type: 'integer', minimum: 1, maximum: 100000 };

const REQUIRED = {
  add_thought: ['thought'],
  revise_thought: ['thoughtNumber', 'newThought'],
  create_branch: ['fromThoughtNumber', 'branchId', 'branchThought'],
  get_thoughts: [],
  get_thought_summary: [],
  reset_thoughts: [],
  add_plan_entry: ['thought', 'plan', 'action'],
  get_plan_entries: [],
  get_plan_entry: ['thoughtNumber'],
  clear_plan_entries: [],
  get_plan_summary: [],
};

export default {
  getMetadata() {
    return {
      id: 'thinking',
      name: 'Thinking',
      description: 'A notebook for thinking in steps: each thought is numbered, can be revised, and can branch off into an alternative; plans with a next action go beside them. Use it for problems with several steps, for choices between alternatives, or when an earlier conclusion may have to be taken back. Do not use it for what can be answered at once, for tasks to tick off (todolist), or to keep something beyond the session.',
      version: '1.0.0',
      category: 'thinking',
      author: 'Toolyard',
      tags: ['thinking', 'reasoning', 'planning', 'sequential'],
      scenarios: [
        'Work through a hard problem one step after another (add_thought)',
        'Take back a wrong conclusion without losing how it came about (revise_thought)',
        'Compare alternatives side by side (create_branch, get_thought_summary)',
        'Note a plan and the next action (add_plan_entry)',
      ],
      limitations: [
        'It keeps and shows thoughts; it does not think or check them',
        'Thoughts live as long as the session and its worker, and are not saved',
        'At most 100 thoughts and plan entries in one line of thought (MAX_THINKING_STEPS)',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: Object.keys(REQUIRED), default: 'add_thought', description: 'What to do.' },
          thought: { ...TEXT, description: 'add_thought, add_plan_entry: the thought.' },
          thoughtNumber: { ...NUMBER, description: 'revise_thought, get_plan_entry: which one. add_thought numbers by itself.' },
          totalThoughts: { ...NUMBER, description: 'add_thought: how many thoughts it will probably take; may change.' },
          nextThoughtNeeded: { type: 'boolean', default: true, description: 'add_thought: false if this was the last one.' },
          isRevision: { type: 'boolean', default: false, description: 'add_thought: this thought corrects the one named by revisesThought.' },
          revisesThought: { ...NUMBER, description: 'add_thought: which thought it corrects.' },
          branchFromThought: { ...NUMBER, description: 'add_thought: the thought that branchId begins at.' },
          branchId: { type: 'string', minLength: 1, maxLength: 100, description: 'The branch that a thought belongs to, such as option-a.' },
          needsMoreThoughts: { type: 'boolean', default: false, description: 'add_thought: it will take more than was expected.' },
          newThought: { ...TEXT, description: 'revise_thought: the thought in its new words.' },
          fromThoughtNumber: { ...NUMBER, description: 'create_branch: where the branch begins.' },
          branchThought: { ...TEXT, description: 'create_branch: its first thought.' },
          plan: { ...TEXT, description: 'add_plan_entry: how to go about it.' },
          action: { ...TEXT, description: 'add_plan_entry: what to do next.' },
          sessionId: { type: 'string', minLength: 1, maxLength: 100, description: 'Keeps several lines of thought apart; without it there is one.' },
        },
        required: [],
        examples: [{ method: 'add_thought', thought: 'The first call is slow because the cache is cold.', totalThoughts: 3 }],
      },
      environment: {
        type: 'object',
        properties: {
          DEFAULT_SESSION_ID: { type: 'string', default: 'default', description: 'The line of thought that is meant without sessionId.' },
          MAX_THINKING_STEPS: { type: 'string', default: '100', description: 'How many thoughts and plan entries one line of thought may have.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    return { './lib/chain.js': 'local', './lib/fail.js': 'local', './lib/show.js': 'local' };
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('PLAN_ENTRY_NOT_FOUND', 'There is no such entry in the plan.', /plan entry .*not found/i, 'Use get_plan_entries for those that are there.'),
      known('THOUGHT_NOT_FOUND', 'There is no thought of this number.', /thought .*not found/i, 'Use get_thoughts for those that are there.'),
      known('PLAN_ENTRY_CONFLICT', 'The plan has an entry of this number already.', /plan entry .*conflict/i, 'Leave thoughtNumber out, or take another number.'),
      known('BRANCH_CONFLICT', 'The branch begins somewhere else.', /branch .*conflict/i, 'Take another branchId, or leave branchFromThought out.'),
      known('BRANCH_NOT_FOUND', 'There is no such branch.', /branch .*not found/i, 'Begin it with create_branch or branchFromThought.'),
      known('MAX_STEPS_EXCEEDED', 'The line of thought is as long as it may be.', /max steps exceeded/i, 'Sum up, and go on with reset_thoughts or another sessionId.'),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the tool\'s manual for the parameters of the method.'),
    ];
  },

  getRuntimeConfig() {
    return { sandboxType: 'nodejs', networkAccess: false };
  },

  async execute(params) {
    const args = this.checked(params);
    const session = args.sessionId ?? this.api?.environment?.get?.('DEFAULT_SESSION_ID') ?? 'default';
    const max = Number(this.api?.environment?.get?.('MAX_THINKING_STEPS'));
    const { text, ...structuredContent } = METHODS[args.method](chainOf(session, max >= 1 ? max : 100), args, session);
    return { content: [{ type: 'text', text }], structuredContent };
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = { method: 'add_thought', ...params };
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (!Object.hasOwn(REQUIRED, args.method)) faults.push(`method ${JSON.stringify(args.method)} is none of ${Object.keys(REQUIRED).join(', ')}`);
      else faults.push(...REQUIRED[args.method].filter((name) => args[name] === undefined || args[name] === null || args[name] === '').map((name) => `${args.method} needs ${name}`));
      if (args.isRevision && !args.revisesThought) faults.push('isRevision needs revisesThought');
      if (args.branchFromThought && !args.branchId) faults.push('branchFromThought needs branchId');
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },
};

// chainOf is the line of thought of a session; the one that was not used for
// longest goes when there are too many.
function chainOf(session, max) {
  const chain = chains.get(session) ?? new Chain(max);
  chain.max = max;
  chains.delete(session);
  chains.set(session, chain);
  if (chains.size > MAX_CHAINS) chains.delete(chains.keys().next().value);
  return chain;
}

function state(chain) {
  return { branches: [...chain.branches.keys()], thoughtHistoryLength: chain.thoughts.length, summary: chain.counts() };
}

const METHODS = {
  add_thought(chain, args) {
    const revises = args.revisesThought ? chain.get(args.revisesThought).number : null;
    if (args.branchId && args.branchFromThought) chain.branch(args.branchId, args.branchFromThought);
    else if (args.branchId && !chain.branches.has(args.branchId)) throw fail('BRANCH_NOT_FOUND', `branch ${args.branchId} not found: begin it with branchFromThought`);
    const more = args.needsMoreThoughts && !args.totalThoughts ? chain.thoughts.length + 2 : args.totalThoughts;
    const thought = chain.add(args.thought, { branchId: args.branchId ?? null, revises, total: more, next: args.nextThoughtNeeded !== false });
    return {
      text: show.added(chain, thought, args.thoughtNumber),
      thoughtNumber: thought.number, totalThoughts: thought.totalThoughts, nextThoughtNeeded: thought.nextThoughtNeeded, ...state(chain),
    };
  },

  revise_thought(chain, args) {
    const thought = chain.revise(args.thoughtNumber, args.newThought);
    const later = chain.thoughts.length - thought.number;
    const hint = later > 0 ? ` ${later} later ${later === 1 ? 'thought rests' : 'thoughts may rest'} on what it said before.` : '';
    return { text: `Thought ${thought.number} revised.${hint}`, thoughtNumber: thought.number, earlier: thought.earlier.map((e) => e.thought), ...state(chain) };
  },

  create_branch(chain, args) {
    if (chain.branches.has(args.branchId)) throw fail('BRANCH_CONFLICT', `branch ${args.branchId} conflicts: it is there already`);
    chain.get(args.fromThoughtNumber);
    const thought = chain.add(args.branchThought, { branchId: args.branchId });
    chain.branch(args.branchId, args.fromThoughtNumber);
    return { text: show.added(chain, thought), thoughtNumber: thought.number, branchId: args.branchId, branchFromThought: args.fromThoughtNumber, ...state(chain) };
  },

  get_thoughts: (chain) => ({ text: show.all(chain), thoughts: chain.thoughts.map((t) => ({ ...t, earlier: [...t.earlier] })), ...state(chain), branches: [...chain.branches].map(([branchId, fromThought]) => ({ branchId, fromThought })) }),
  get_thought_summary: (chain) => ({ text: show.summary(chain), ...state(chain) }),

  reset_thoughts(chain) {
    const cleared = chain.thoughts.length;
    chain.thoughts = [];
    chain.branches.clear();
    return { text: `${cleared} ${cleared === 1 ? 'thought' : 'thoughts'} cleared.`, cleared };
  },

  add_plan_entry(chain, args) {
    const number = args.thoughtNumber ?? chain.plans.reduce((top, entry) => Math.max(top, entry.thoughtNumber), 0) + 1;
    if (chain.plans.some((entry) => entry.thoughtNumber === number)) throw fail('PLAN_ENTRY_CONFLICT', `plan entry ${number} conflicts: it is there already`);
    if (chain.thoughts.length + chain.plans.length >= chain.max) throw fail('MAX_STEPS_EXCEEDED', `max steps exceeded: this session has ${chain.max} thoughts and plans`);
    const entry = { thoughtNumber: number, thought: args.thought, plan: args.plan, action: args.action, timestamp: new Date().toISOString() };
    chain.plans.push(entry);
    return { text: `Plan entry ${number} noted, ${chain.plans.length} in all. Next action: ${entry.action}`, entry, count: chain.plans.length };
  },

  get_plan_entries(chain, args, session) {
    const text = chain.plans.length === 0 ? 'No plan entries yet.' : chain.plans.map(show.plan).join('\n');
    return { text, sessionId: session, count: chain.plans.length, entries: [...chain.plans] };
  },

  get_plan_entry(chain, args) {
    const entry = chain.plans.find((one) => one.thoughtNumber === args.thoughtNumber);
    if (!entry) throw fail('PLAN_ENTRY_NOT_FOUND', `plan entry ${args.thoughtNumber} not found: there are ${chain.plans.map((one) => one.thoughtNumber).join(', ') || 'none yet'}`);
    return { text: show.plan(entry), entry, count: chain.plans.length };
  },

  clear_plan_entries(chain, args, session) {
    const cleared = chain.plans.length;
    chain.plans = [];
    return { text: `${cleared} plan ${cleared === 1 ? 'entry' : 'entries'} cleared.`, sessionId: session, cleared };
  },

  get_plan_summary(chain, args, session) {
    const last = chain.plans.at(-1);
    const text = last ? `${chain.plans.length} plan ${chain.plans.length === 1 ? 'entry' : 'entries'}:\n${chain.plans.map((e) => `[${e.thoughtNumber}] ${e.thought}`).join('\n')}\nNext action: ${last.action}` : 'No plan entries yet.';
    return { text, sessionId: session, count: chain.plans.length };
  },
};
