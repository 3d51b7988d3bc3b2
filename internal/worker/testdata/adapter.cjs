module.exports = (module, setup) => ({
  shout: args => setup.prefix + module.default.echo(args.text).toUpperCase(),
  counter: () => module.default.counter(),
  spoil (args, api) { api.retire('something is odd'); throw new Error('spoiled') }
})
