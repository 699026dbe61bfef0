"""``flowcontrol schema``: the JSON schema of scenario files, for editors."""

import argparse
import json
import sys


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Print a JSON schema of scenario files. With it an editor completes keys, shows their "
        "meaning and marks errors: save it, and begin a scenario with the line `# "
        "yaml-language-server: $schema=flowcontrol.schema.json`."
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Print the schema; return 0."""
    from flowcontrol.scenario.json_schema import scenario_schema

    sys.stdout.write(json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n")
    return 0
