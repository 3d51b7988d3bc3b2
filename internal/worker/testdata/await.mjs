const { basename } = await import('node:path')
export default { base (args) { return basename(args.path) } }
