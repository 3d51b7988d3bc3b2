module.exports = args => ({ called: args })
