const helper = new URL('./toolyard-test.cjs', import.meta.url).href

export async function resolve (specifier, context, next) {
  if (specifier === 'toolyard:test') return { url: helper, format: 'commonjs', shortCircuit: true }
  return next(specifier, context)
}
