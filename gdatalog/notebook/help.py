"""The help, and the options of each magic."""

from __future__ import annotations

from gdatalog.notebook.options import MagicOptions

HELP = """\
%%datalog [NAME]             runs a cell: keeps its rules, and answers its `?-` or last rule.
                             With NAME, the answer goes into that variable.
%datalog TEXT                runs a line; fans = %datalog ?- follows(x, "ann").
%datalog_load [R] DATA       loads a file, or a variable of the notebook, as the relation R
%datalog_explain TEXT        shows the plan of a text, without evaluating it
%datalog_profile TEXT        runs a text, and shows rows and time of each step of its plan
%datalog_relations           lists the relations, with columns and numbers of rows
%datalog_rules [R]           lists the kept rules, with sizes
%datalog_db [VARIABLE]       returns the database of the magics; with VARIABLE, changes it
%datalog_set [NAME [VALUE]]  lists the settings of the database; changes one
%datalog_help                shows this list

%%datalog_explain and %%datalog_profile take a cell. `?` after a magic shows its options, as in
%datalog?"""

DATALOG = MagicOptions(
    "%datalog",
    "Keeps the rules of a cell or a line, and answers its `?-` or last rule.",
    params=True,
    strategy=True,
)
DATALOG.add_argument("name", nargs="?", help="of a cell: the variable that gets the answer")
DATALOG.add_argument("--limit", type=int, metavar="N", help="maximum rows of the answer")
DATALOG.add_argument("--explain", action="store_true", help="show the plan without evaluating it")
DATALOG.add_argument(
    "--profile", action="store_true", help="also show what each step of the plan did"
)
DATALOG.add_argument(
    "--show", action="store_true", help="also show an answer that goes into a variable"
)
DATALOG.add_argument(
    "--quiet", action="store_true", help="keep the rules, but evaluate and show nothing"
)

EXPLAIN = MagicOptions(
    "%datalog_explain", "Shows the plan of a text, without evaluating it.", params=True
)
EXPLAIN.add_argument(
    "--passes", action="store_true", help="also show the rules after each pass of the planner"
)
PROFILE = MagicOptions(
    "%datalog_profile",
    "Runs a text, and shows rows and time of each step.",
    params=True,
    strategy=True,
)
LOAD = MagicOptions("%datalog_load", "Loads data into a relation, replacing its previous data.")
LOAD.add_argument(
    "data",
    nargs="+",
    metavar="[RELATION] DATA",
    help="a variable of the notebook, or a file; without RELATION, its name is the relation's",
)
LOAD.add_argument("--columns", metavar="A,B,...", help="names for the columns")
LOAD.add_argument(
    "--header", metavar="true|false", help="whether the first line of a text file has names"
)
LOAD.add_argument("--nulls", metavar="HOW", help="missing values: keep, drop the row, or error")
LOAD.add_argument("--null", metavar="WORD", help="the word for a null in a text file")
LOAD.add_argument("--fill", metavar="A=VALUE,...", help="values in place of missing ones")
LOAD.add_argument(
    "--row_id", metavar="true|NAME", help="keep equal rows: number them in a hidden column, or NAME"
)
LOAD.add_argument("--nodes", metavar="RELATION", help="of a networkx graph: also load its nodes")
LOAD.add_argument(
    "--tuples", action="store_true", help="of a networkx graph: a column for each part of a node"
)

RELATIONS = MagicOptions(
    "%datalog_relations", "Lists the relations, with columns and numbers of rows."
)
RULES = MagicOptions("%datalog_rules", "Lists the kept rules and declarations.")
RULES.add_argument("relation", nargs="?", help="list only the rules of this relation")
DB = MagicOptions("%datalog_db", "The database of the magics.")
DB.add_argument("variable", nargs="?", help="a variable with another Database to use from now on")
SET = MagicOptions("%datalog_set", "Lists the settings of the database; with VALUE, changes one.")
SET.add_argument("name", nargs="?", help="a setting, such as strategy")
SET.add_argument("value", nargs="?", help="its new value, such as lftj")
HELP_OPTIONS = MagicOptions("%datalog_help", "The list of the magics.")
