// How thoughts and plans read.

/** progress is where a thought stands among those that are expected. */
export function progress({ number, totalThoughts }) {
  return `${number} of ${totalThoughts} (${Math.min(100, Math.round((number / totalThoughts) * 100))}%)`;
}

/** line is a thought in one block, whole. */
export function line(thought) {
  const marks = [];
  if (thought.branchId !== null) marks.push(`branch ${thought.branchId}`);
  if (thought.revises) marks.push(`revises ${thought.revises}`);
  if (thought.earlier.length > 0) marks.push(thought.earlier.length === 1 ? 'revised' : `revised ${thought.earlier.length} times`);
  return `${thought.number}. ${marks.length > 0 ? `(${marks.join(', ')}) ` : ''}${thought.thought}`;
}

/** added is the answer to a thought: short, for the caller has just written it. */
export function added(chain, thought, said) {
  const out = [`Thought ${progress(thought)} noted${thought.branchId === null ? '' : ` on branch ${thought.branchId}`}.`];
  if (said !== undefined && said !== thought.number) out.push(`It is number ${thought.number}, not ${said}.`);
  if (thought.revises) out.push(`It revises thought ${thought.revises}.`);
  if (chain.branches.size > 0) out.push(`Branches: ${branches(chain)}.`);
  out.push(thought.nextThoughtNeeded ? 'Go on with the next thought.' : 'That was the last thought; get_thought_summary sums up.');
  return out.join('\n');
}

function branches(chain) {
  return [...chain.branches].map(([id, from]) => `${id} (from thought ${from})`).join(', ');
}

/** all is every thought in full. */
export function all(chain) {
  if (chain.thoughts.length === 0) return 'No thoughts yet.';
  const out = chain.thoughts.map(line);
  if (chain.branches.size > 0) out.push('', `Branches: ${branches(chain)}.`);
  return out.join('\n');
}

/** summary is what the thoughts came to: the counts, and the end of each way. */
export function summary(chain) {
  const { totalThoughts, totalBranches, totalRevisions } = chain.counts();
  const out = [`Thoughts: ${totalThoughts}, branches: ${totalBranches}, revisions: ${totalRevisions}.`];
  if (totalThoughts === 0) return out[0];
  for (const id of [null, ...chain.branches.keys()]) {
    const path = chain.path(id);
    const last = path.at(-1);
    if (!last) continue;
    out.push('', `${id === null ? 'Main line' : `Branch ${id}`} (${path.map((t) => t.number).join(' → ')}), ${last.nextThoughtNeeded ? 'still open' : 'ended'}:`, last.thought);
  }
  return out.join('\n');
}

/** plan is an entry of the plan in full. */
export function plan(entry) {
  return `[${entry.thoughtNumber}] ${entry.thought}\n  Plan: ${entry.plan}\n  Next action: ${entry.action}`;
}
