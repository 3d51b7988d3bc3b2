// A tool is one object. execute does the work; the other methods say what the tool
// is, and a change of this file is there at the next call.

const WORD = /[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu

export default {
  // What people and models read when they choose a tool.
  getMetadata() {
    return {
      id: '{{name}}',
      name: '{{title}}',
      description: 'Counts the words, lines and characters of a text, finds its most frequent words and says how long it takes to read. Use it when a text has to fit a length, or to see what it is about.',
      version: '1.0.0',
      category: 'text',
      author: '{{author}}',
      tags: ['text', 'statistics'],
      scenarios: ['Check that an article stays within 800 words', 'See which words a text repeats'],
      limitations: ['Languages that put no spaces between words count as one word a run of letters'],
    }
  },

  // parameters: what a call may pass; the runtime checks it before execute sees it.
  // environment: settings, which `toolm` mode configure keeps in .env.
  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          text: { type: 'string', minLength: 1, maxLength: 1000000, description: 'The text to look at' },
          top: { type: 'integer', minimum: 0, maximum: 50, default: 5, description: 'How many of the most frequent words to list' },
          case: { type: 'string', enum: ['ignore', 'keep'], default: 'ignore', description: 'Whether Word and word are the same word' },
        },
        required: ['text'],
      },
      environment: {
        type: 'object',
        properties: {
          WORDS_PER_MINUTE: { type: 'integer', minimum: 1, default: 200, description: 'How fast the reader reads' },
        },
        required: [],
      },
    }
  },

  // npm packages and their ranges: { lodash: '^4.17.0' }. They are installed before
  // the first call, into this folder alone.
  getDependencies() {
    return {}
  },

  // Failures that are no bugs. A message that matches tells the caller what to do.
  getBusinessErrors() {
    return [
      {
        code: 'NO_WORDS',
        description: 'The text holds no word at all',
        match: /holds no words/,
        solution: 'Pass a text with letters or digits in it.',
        retryable: false,
      },
    ]
  },

  // What the tool asks for. More than the defaults needs a person's consent, once.
  getRuntimeConfig() {
    return { maxMemory: 256, maxExecutionTime: 10000, networkAccess: false }
  },

  async execute(params) {
    const { text, top = 5 } = params
    const { logger, environment, progress } = this.api
    const lines = text.split(/\r\n|\r|\n/)
    const counts = new Map()
    let words = 0
    for (const [i, line] of lines.entries()) {
      if (i > 0 && i % 10000 === 0) progress(i, lines.length, 'counting words')
      for (const [found] of line.matchAll(WORD)) {
        const word = params.case === 'keep' ? found : found.toLowerCase()
        counts.set(word, (counts.get(word) ?? 0) + 1)
        words++
      }
    }
    if (words === 0) throw new Error('the text holds no words to count')

    const frequent = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, top)
    const speed = Number(environment.get('WORDS_PER_MINUTE')) || 200
    logger.info('counted', { words, lines: lines.length })
    return {
      words,
      lines: lines.length,
      characters: [...text].length,
      minutes: Math.round((words / speed) * 10) / 10,
      frequent: frequent.map(([word, count]) => ({ word, count })),
    }
  },
}
