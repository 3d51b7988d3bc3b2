def load(path, loader):
    module = loader(path, "tool")
    module.seen = path
    return module


def adapt(module, setup):
    class Adapted:
        def shout(self, args):
            return setup["prefix"] + args["text"].upper() + module.seen[-8:]

    return Adapted()
