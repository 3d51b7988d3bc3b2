class Greeter {
  #greeting = 'hello'
  greet (args) { return this.#greeting + ' ' + args.who }
}
module.exports = Greeter
