"""Compiled handlers of expat for the nodes of trees: a file has half a million of them, and as many predicates."""

cdef int INSIDE = -1  # stands among open nodes for an open element that is no node


cdef class NodeHandlers:
    """Handlers for one tree, from the first child of its root to the end of its root.

    Parameters
    ----------
    tree : NodeLists
        Filled here. It has the root already.
    names : dict of str to str
        Names of elements by those that expat gives.
    codes : dict of str to int
        Of the operators of a SimplePredicate.
    without_field : dict of str to int
        Codes of other predicates, by the names of their elements.
    fields : dict of str to str
        Names of fields, each kept once.
    on_part : callable
        Called with the name, the attributes and the node of an element of another kind; reads it up to its end.
    on_end : callable
        Called after the last node.
    """

    cdef dict codes, without_field, fields
    cdef object names  # a dict that makes names which it does not have
    cdef list above, parent, score, count, name, default_child, owner, operator, field, value, share_owner, shares
    cdef object on_part, on_end
    cdef bint keeps_names

    def __init__(self, tree, names, dict codes, dict without_field, dict fields, on_part, on_end, bint keeps_names):
        self.names, self.codes, self.without_field, self.fields = names, codes, without_field, fields
        self.on_part, self.on_end, self.keeps_names = on_part, on_end, keeps_names
        self.above = [0]
        self.parent, self.score, self.count = tree.parent, tree.score, tree.count
        self.name, self.default_child = tree.name, tree.default_child
        self.owner, self.operator, self.field, self.value = tree.owner, tree.operator, tree.field, tree.value
        self.share_owner, self.shares = tree.share_owner, tree.shares

    def start(self, str name, dict attributes):
        """Read the beginning of an element."""
        cdef str tag = self.names[name]
        cdef object above = self.above[len(self.above) - 1]
        if <int> above < 0:
            self.on_part(tag, attributes, None)
        elif tag == "Node":
            self.above.append(len(self.parent))
            self.parent.append(above)
            self.add(attributes)
        elif tag == "SimplePredicate":
            self.above.append(INSIDE)
            self.owner.append(above)
            self.operator.append(self.codes.get(attributes.get("operator"), attributes.get("operator")))
            field = attributes.get("field", "")
            self.field.append(self.fields.setdefault(field, field))
            self.value.append(attributes.get("value"))
        elif tag == "ScoreDistribution":
            self.above.append(INSIDE)
            self.share_owner.append(above)
            self.shares.append(attributes)
        elif tag in self.without_field:
            self.owner.append(above)
            self.operator.append(self.without_field[tag])
            self.field.append(None)
            self.value.append("nan")
            if tag == "True" or tag == "False":
                self.above.append(INSIDE)
            else:
                self.on_part(tag, attributes, len(self.owner) - 1)
        else:
            self.on_part(tag, attributes, None)

    def end(self, name):
        """Read the end of an element."""
        if <int> self.above.pop() == 0:  # of the root, which is node 0
            self.on_end()

    def add(self, dict attributes):
        """Keep the attributes of a node that are needed."""
        self.score.append(attributes.get("score"))
        self.count.append(attributes.get("recordCount"))
        if self.keeps_names:
            self.name.append(attributes.get("id"))
            self.default_child.append(attributes.get("defaultChild"))
