"""One step: what a round does to a task, which tasks have work, and how this is compiled.

It may import the memory and the rules. The virtual clock runs it compiled, the live one
uncompiled.
"""
