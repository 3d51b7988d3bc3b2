package check

import "slices"

// rule is one thing that is looked at. To add one: a row in the table of its
// layer, a line in that layer's function, and two tools in the test's table, one
// that has the fault and one that has not.
type rule struct {
	id       string
	layer    int
	severity Severity
	title    words // what holds if the rule is passed
	message  words // what was found; a format
	hint     words // what to do
}

// layer is one part of the validation. To add one: a row in layers.
type layer struct {
	number int
	title  words
	run    func(*run)
}

func layers() []layer {
	return []layer{
		{1, words{"file structure", "文件结构"}, (*run).structure},
		{2, words{"interface", "接口"}, (*run).methods},
		{3, words{"metadata", "元数据"}, (*run).metadata},
		{4, words{"schema", "参数模式"}, (*run).schemas},
		{5, words{"method results", "方法返回"}, (*run).answers},
		{6, words{"parameters", "参数"}, (*run).parameters},
		{7, words{"return value", "返回值"}, (*run).results},
		{8, words{"errors", "错误"}, (*run).failures},
		{9, words{"dependencies", "依赖"}, (*run).dependencies},
		{10, words{"environment", "环境"}, (*run).environment},
		{11, words{"integration", "集成"}, (*run).integration},
		{12, words{"practice", "实践"}, (*run).practice},
	}
}

func rules() []rule { return slices.Concat(statedRules(), triedRules(), aroundRules()) }

// statedRules are those of what a tool consists of and says: layers 1 to 5.
func statedRules() []rule {
	return []rule{
		{"folder", 1, Error, words{"the folder can be read", "文件夹可读取"},
			words{"the folder cannot be read: %v", "文件夹无法读取：%v"},
			words{"Give the folder of a tool.", "请指定工具所在的文件夹。"}},
		{"name", 1, Error, words{"the tool's name is valid", "工具名有效"},
			words{"%q is no name of a tool", "%q 不是有效的工具名"},
			words{"Rename the folder: letters, digits, - and _, beginning with a letter or digit, at most 64.", "请重命名文件夹：字母、数字、- 和 _，以字母或数字开头，最多 64 个字符。"}},
		{"module", 1, Error, words{"the module is there", "模块文件存在"},
			words{"%s", "%s"},
			words{"Name the module <name>.tool.js, tool.js, <name>.tool.py or tool.py.", "模块文件名应为 <name>.tool.js、tool.js、<name>.tool.py 或 tool.py。"}},
		{"module-one", 1, Warning, words{"there is one module", "只有一个模块"},
			words{"%s could be the module too; %s is used", "%s 也可能是模块；实际使用 %s"},
			words{"Remove or rename what is not used.", "请删除或重命名未使用的文件。"}},
		{"package-json", 1, Error, words{"package.json can be read", "package.json 可读取"},
			words{"package.json cannot be read: %v", "package.json 无法读取：%v"},
			words{"Write a JSON object; Node itself reads this file.", "内容应为 JSON 对象；Node 也会读取该文件。"}},
		{"link", 1, Warning, words{"no link leads out of the folder", "没有指向文件夹之外的链接"},
			words{"a link leads out of the tool's folder, to where it may not read", "链接指向工具文件夹之外，工具无权读取"},
			words{"Copy what the tool needs into its folder.", "请把所需文件复制到工具文件夹中。"}},
		{"readme", 1, Warning, words{"a README is there", "README 存在"},
			words{"there is no README.md", "没有 README.md"},
			words{"Say in a README.md what the tool does and how it is configured.", "请在 README.md 中说明工具的用途和配置方法。"}},

		{"load", 2, Error, words{"the module can be asked", "模块可被询问"},
			words{"the module does not load: %v", "模块无法加载：%v"},
			words{"Mend what the message names; nothing else can be seen before.", "请先修复该错误，之后才能继续检查。"}},
		{"execute", 2, Error, words{"execute is there", "execute 存在"},
			words{"the module has no function execute", "模块没有 execute 函数"},
			words{"Export execute(params, mode): it is what a call runs.", "请导出 execute(params, mode)：调用时执行的就是它。"}},
		{"method", 2, Warning, words{"the other methods are there", "其他方法存在"},
			words{"the module has no %s", "模块没有 %s"},
			words{"Add it, so that the tool can be found, checked and explained.", "请补充该方法，以便查找、检查和说明此工具。"}},
		{"throws", 2, Error, words{"no method throws", "没有方法抛出异常"},
			words{"%s() threw: %s", "%s() 抛出异常：%s"},
			words{"What a tool says of itself must not depend on anything that can fail.", "工具的自述不应依赖可能失败的内容。"}},

		{"metadata", 3, Error, words{"getMetadata returns an object", "getMetadata 返回对象"},
			words{"%s() returned %s; an object is expected", "%s() 返回了 %s；应为对象"},
			words{"Return {id, name, description, version, category, …}.", "请返回 {id, name, description, version, category, …}。"}},
		{"meta-name", 3, Error, words{"it has a name", "有名称"},
			words{"name is %s; a text is expected", "name 为 %s；应为文本"},
			words{"Give the name that a person reads.", "请填写供人阅读的名称。"}},
		{"meta-description", 3, Error, words{"it has a description", "有描述"},
			words{"description is %s; a text is expected", "description 为 %s；应为文本"},
			words{"Say what the tool does and when to use it; the model chooses by it.", "请说明工具的作用和使用时机；模型据此选择工具。"}},
		{"meta-version", 3, Error, words{"its version is semantic", "版本号符合语义化规范"},
			words{"version is %s; a semantic version is expected", "version 为 %s；应为语义化版本号"},
			words{"Write three numbers, as 1.0.0.", "请写成三段数字，例如 1.0.0。"}},
		{"meta-id", 3, Warning, words{"it has an id", "有 id"},
			words{"id is %s; a text is expected", "id 为 %s；应为文本"},
			words{"Give an id that stays the same when the name changes.", "请填写不随名称改变的 id。"}},
		{"meta-category", 3, Warning, words{"it has a category", "有分类"},
			words{"category is %s; a text is expected", "category 为 %s；应为文本"},
			words{"Give the family that the tool belongs to, as text or files.", "请填写工具所属的类别，例如 text 或 files。"}},
		{"meta-lists", 3, Error, words{"its lists are lists of texts", "列表字段是文本列表"},
			words{"%s is %s; a list of texts is expected", "%s 为 %s；应为文本列表"},
			words{"Write it as [\"…\", \"…\"].", "请写成 [\"…\", \"…\"]。"}},

		{"schema", 4, Error, words{"getSchema returns an object", "getSchema 返回对象"},
			words{"%s() returned %s; an object is expected", "%s() 返回了 %s；应为对象"},
			words{"Return {parameters, environment}, each a JSON Schema.", "请返回 {parameters, environment}，各为一个 JSON Schema。"}},
		{"schema-valid", 4, Error, words{"the schemas are valid JSON Schema", "模式是有效的 JSON Schema"},
			words{"the schema is not valid: %s", "模式无效：%s"},
			words{"Mend the schema as JSON Schema says.", "请按 JSON Schema 规范修正。"}},
		{"param-type", 4, Error, words{"each parameter has a type", "每个参数都有类型"},
			words{"the parameter has no type", "参数没有 type"},
			words{"Say what it is: \"type\": \"string\", for example.", "请说明类型，例如 \"type\": \"string\"。"}},
		{"required-known", 4, Error, words{"what is required is declared", "必填项均已声明"},
			words{"%q is required and not among the properties", "%q 为必填项，但不在 properties 中"},
			words{"Declare it, or take it from the list.", "请声明该属性，或将其从列表中移除。"}},
		{"required-true", 4, Error, words{"no property is required by itself alone", "没有仅在属性上标注的必填项"},
			words{"required: true stands on the property, and the property is not in the list of what is required", "属性上写有 required: true，但它不在必填列表中"},
			words{"JSON Schema knows only the list: write \"required\": [\"…\"] beside properties.", "JSON Schema 只认列表：请在 properties 旁写 \"required\": [\"…\"]。"}},
		{"enum-list", 4, Error, words{"each enum is a list", "每个 enum 都是列表"},
			words{"enum is %s; a list of values is expected", "enum 为 %s；应为取值列表"},
			words{"Write it as [\"…\", \"…\"].", "请写成 [\"…\", \"…\"]。"}},
		{"env-name", 4, Error, words{"the variables have valid names", "环境变量名有效"},
			words{"%q is no name of a variable", "%q 不是有效的环境变量名"},
			words{"Use capitals, digits and _, beginning with a capital or _.", "请使用大写字母、数字和 _，以大写字母或 _ 开头。"}},
		{"no-parameters", 4, Warning, words{"there is a schema of the parameters", "有参数模式"},
			words{"there is no schema of the parameters", "没有参数模式"},
			words{"Without one nobody knows what to pass, and nothing is checked.", "没有它，调用者不知道该传什么，也无法检查。"}},
		{"no-environment", 4, Warning, words{"there is a schema of the environment", "有环境变量模式"},
			words{"there is no schema of the environment", "没有环境变量模式"},
			words{"Return one with no properties if the tool has no settings.", "如果工具没有设置项，请返回 properties 为空的模式。"}},
		{"env-undescribed", 4, Warning, words{"each variable is described", "每个环境变量都有描述"},
			words{"the variable has no description", "环境变量没有描述"},
			words{"Say what it is for and where its value comes from.", "请说明其用途以及取值来源。"}},
		{"pattern", 4, Warning, words{"each pattern can be enforced", "每个 pattern 都能被执行"},
			words{"the pattern %s cannot be enforced before the tool is called", "pattern %s 无法在调用工具之前执行"},
			words{"Write it without look-around and back-references, or check the value in execute.", "请避免使用环视和反向引用，或在 execute 中检查。"}},

		{"answer", 5, Error, words{"each method returns what JSON can hold", "每个方法都返回可用 JSON 表示的内容"},
			words{"%s() gave no usable answer: %s", "%s() 没有给出可用的结果：%s"},
			words{"Return plain objects, lists, texts and numbers.", "请返回普通的对象、列表、文本和数字。"}},
		{"deps", 5, Error, words{"getDependencies returns an object", "getDependencies 返回对象"},
			words{"%s() returned %s; an object of names and ranges is expected", "%s() 返回了 %s；应为“名称: 版本范围”的对象"},
			words{"Return {\"lodash\": \"^4.17.0\"}, or {} if there are none.", "请返回 {\"lodash\": \"^4.17.0\"}；没有依赖时返回 {}。"}},
		{"dep-range", 5, Error, words{"each dependency has a range", "每个依赖都有版本范围"},
			words{"the range is %s; a text that is not empty is expected", "版本范围为 %s；应为非空文本"},
			words{"Name the versions that work, as ^4.17.0.", "请写明可用的版本，例如 ^4.17.0。"}},
		{"errors", 5, Error, words{"getBusinessErrors returns a list", "getBusinessErrors 返回列表"},
			words{"%s() returned %s; a list of objects is expected", "%s() 返回了 %s；应为对象列表"},
			words{"Return [{code, description, match, solution, retryable}].", "请返回 [{code, description, match, solution, retryable}]。"}},
		{"error-fields", 5, Error, words{"each business error is complete", "每个业务错误都完整"},
			words{"%s is %s; %s is expected", "%s 为 %s；应为%s"},
			words{"Each error needs code, description and solution; retryable is true or false.", "每个错误都需要 code、description 和 solution；retryable 为 true 或 false。"}},
		{"runtime", 5, Error, words{"getRuntimeConfig returns an object", "getRuntimeConfig 返回对象"},
			words{"%s() returned %s; an object is expected", "%s() 返回了 %s；应为对象"},
			words{"Return what the tool asks for, or {} for the defaults.", "请返回工具所需的配置；使用默认值时返回 {}。"}},
		{"understood", 5, Warning, words{"everything in the answers is understood", "返回内容均可被理解"},
			words{"in the answer of %s(): %s", "%s() 的返回内容中：%s"},
			words{"What is not understood is left out.", "无法理解的内容会被忽略。"}},
	}
}
