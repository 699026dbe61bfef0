"""Topics of a run, a file each: figures for the summary, sentences, a section of the page."""
